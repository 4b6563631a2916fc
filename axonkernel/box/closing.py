"""The filter of a worker, as raw BPF: what Landlock does not cover, and every new socket.

It comes on top of the filter of the box, or of one like it (seccomp.py). libseccomp cannot be
loaded in every box, so this is assembled here. Standard library only, and pure.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Iterable, Iterator
from functools import cache
from typing import NamedTuple

__all__ = ["MACHINES", "Closed", "filter_bytes"]


class Closed(NamedTuple):
    """What a worker does without, beside what every worker does.

    Arguments:
        net: every socket but connected pairs.
        fs: calls that change or reveal files past Landlock.
        truncate: by name, where Landlock does not know it (before ABI 3).
        memory: files in memory that could be executed, where programs are told apart.
    """

    net: bool = False
    fs: bool = False
    truncate: bool = False
    memory: bool = False


class _Rule(NamedTuple):
    """``checks`` are (argument, mask, value), of its low 32 bits; ``nonzero`` one more."""

    call: str
    error: int
    checks: tuple[tuple[int, int, int], ...] = ()
    nonzero: int = -1


#: By machine: what AUDIT_ARCH calls it, and which column of the numbers is its own.
MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1), "riscv64": (0xC00000F3, 1)}
#: Call to its number on x86_64 and on the others; -1 where there is none.
_NUMBERS = {
    "socket": (41, 198), "socketpair": (53, 199),
    "chmod": (90, -1), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, -1), "fchown": (93, 55), "lchown": (94, -1), "fchownat": (260, 54),
    "utime": (132, -1), "utimes": (235, -1), "futimesat": (261, -1), "utimensat": (280, 88),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "getxattr": (191, 8), "lgetxattr": (192, 9), "fgetxattr": (193, 10),
    "listxattr": (194, 11), "llistxattr": (195, 12), "flistxattr": (196, 13),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "setxattrat": (463, 463), "getxattrat": (464, 464), "listxattrat": (465, 465),
    "removexattrat": (466, 466), "file_getattr": (468, 468), "file_setattr": (469, 469),
    "inotify_add_watch": (254, 27), "fanotify_mark": (301, 263), "name_to_handle_at": (303, 264),
    "truncate": (76, 45), "ioctl": (16, 29), "memfd_create": (319, 279),
    "mq_open": (240, 180), "mq_unlink": (241, 181),
    "shmget": (29, 194), "shmat": (30, 196), "semget": (64, 190), "semop": (65, 193),
    "semtimedop": (220, 192), "msgget": (68, 186), "msgsnd": (69, 189), "msgrcv": (70, 188),
    "prlimit64": (302, 261), "sched_setaffinity": (203, 122), "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118), "sched_setattr": (314, 274), "setpriority": (141, 140),
    "ioprio_set": (251, 30), "migrate_pages": (256, 238), "move_pages": (279, 239),
}  # fmt: skip

_UNIX, _DATAGRAM, _RAW = 1, 2, 3
_ALL = 0xFFFFFFFF
_ATTRIBUTES = "chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat utime utimes".split()
_XATTR = (
    "setxattr lsetxattr fsetxattr getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr "
    "removexattr lremovexattr fremovexattr setxattrat getxattrat listxattrat removexattrat "
    "file_getattr file_setattr name_to_handle_at"
).split()
#: FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR, FS_IOC_ENABLE_VERITY: on a file that is only read.
_FILE_FLAGS = (0x40086602, 0x401C5820, 0x40806685)
_SHARED = "shmget shmat semget semop semtimedop msgget msgsnd msgrcv mq_open mq_unlink".split()
#: Call to the argument that names a process; 0 is the caller.
_ABOUT_OTHERS = {
    "prlimit64": 0, "sched_setaffinity": 0, "sched_setscheduler": 0, "sched_setparam": 0,
    "sched_setattr": 0, "setpriority": 1, "ioprio_set": 1, "migrate_pages": 0, "move_pages": 0,
}  # fmt: skip


@cache
def filter_bytes(closed: Closed, machine: str) -> bytes:
    """The filter for a machine as uname(2) names it. Raises KeyError for an unknown one.

    Foreign ABIs get ENOSYS: their numbers mean other things.
    """
    arch, column = MACHINES[machine]
    code = [
        (_LOAD, 0, 0, _ARCH_AT),
        (_EQUAL, 0, 2, arch),
        (_LOAD, 0, 0, _NUMBER_AT),
        (_AT_LEAST, 0, 1, _FOREIGN),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
    ]
    for rule in _rules(closed):
        if (number := _NUMBERS[rule.call][column]) >= 0:
            code += _assembled(rule, number)
    code.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in code)


def _rules(closed: Closed) -> Iterator[_Rule]:
    # A unix socket reaches services by a path that no Landlock rule is asked about.
    yield _Rule("socket", errno.EACCES, () if closed.net else ((0, _ALL, _UNIX),))
    # A datagram end of a pair can still send to any path; raw means the same.
    for kind in (_DATAGRAM, _RAW):
        yield _Rule("socketpair", errno.EACCES, ((1, 0xF, kind),))
    yield from (_Rule(call, errno.EPERM) for call in _SHARED)
    for call, argument in _ABOUT_OTHERS.items():
        yield _Rule(call, errno.EPERM, nonzero=argument)
    if closed.fs:
        yield from _on_files()
    if closed.memory:  # without MFD_NOEXEC_SEAL
        yield _Rule("memfd_create", errno.EACCES, ((1, 0x8, 0),))
    if closed.truncate:
        yield _Rule("truncate", errno.EACCES)


def _on_files() -> Iterator[_Rule]:
    yield from (_Rule(call, errno.EPERM) for call in (*_ATTRIBUTES, "futimesat", "utimensat"))
    # What a file system without them answers, so that copying goes on.
    yield from (_Rule(call, errno.EOPNOTSUPP) for call in _XATTR)
    yield from (_Rule(call, errno.EACCES) for call in ("inotify_add_watch", "fanotify_mark"))
    yield from (_Rule("ioctl", errno.EPERM, ((1, _ALL, flag),)) for flag in _FILE_FLAGS)


_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_EQUAL, _AT_LEAST = 0x15, 0x35
_ERRNO, _ALLOW = 0x00050000, 0x7FFF0000
_NUMBER_AT, _ARCH_AT, _ARGUMENTS_AT = 0, 4, 16
#: Numbers of the x32 ABI start here.
_FOREIGN = 0x40000000

_Instruction = tuple[int, int, int, int]


def _assembled(rule: _Rule, number: int) -> Iterable[_Instruction]:
    """Ends with the rule's errno, or behind its last instruction with the next rule."""
    tail: list[_Instruction] = [(_RETURN, 0, 0, _ERRNO | rule.error)]
    for argument, mask, value in reversed(rule.checks):
        tail = [
            (_LOAD, 0, 0, _ARGUMENTS_AT + 8 * argument),
            (_AND, 0, 0, mask),
            (_EQUAL, 0, len(tail), value),
            *tail,
        ]
    if rule.nonzero >= 0:
        tail = [(_LOAD, 0, 0, _ARGUMENTS_AT + 8 * rule.nonzero), (_EQUAL, len(tail), 0, 0), *tail]
    return [(_LOAD, 0, 0, _NUMBER_AT), (_EQUAL, 0, len(tail), number), *tail]
