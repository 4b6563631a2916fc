"""Becoming somebody else, and leaving programs that make their runner somebody else."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import struct
import subprocess

from axonkernel.escapes.attempt import Group, Refused
from axonkernel.escapes.calls import call
from axonkernel.escapes.scene import Scene
from axonkernel.escapes.tools import any_of, in_child, write

__all__ = ["GROUP"]

GROUP = Group("privilege", "no capability")
_SECCOMP = "seccomp filter"
_SET_UID, _SET_GID = 0o4755, 0o2755
_NOWHERE = -100


@GROUP("setuid to another user", "claim")
def become_other(scene: Scene) -> str:
    """The agent acts as another user of the host."""
    other = 1 if os.getuid() != 1 else 2
    return any_of(*(lambda uid=uid: in_child(lambda: os.setuid(uid)) for uid in (other, 0)
                    if uid != os.getuid()))  # fmt: skip


@GROUP("setgroups", "claim")
def join_group(scene: Scene) -> str:
    """The agent joins groups, such as that of docker or of the disks."""
    return in_child(lambda: os.setgroups([1]))


@GROUP("capset", "claim")
def take_capability(scene: Scene) -> str:
    """The agent has a capability again."""
    head = ctypes.create_string_buffer(struct.pack("II", 0x20080522, 0), 8)
    data = struct.pack("IIIIII", 1 << 21, 1 << 21, 0, 0, 0, 0)  # CAP_SYS_ADMIN
    return in_child(lambda: call("capset", head, data))


@GROUP("lift no_new_privs", "claim")
def lift_no_new_privileges(scene: Scene) -> str:
    """Set-id programs give privileges again."""
    with contextlib.suppress(OSError):
        call("prctl", 38, 0, 0, 0, 0)
    if call("prctl", 39, 0, 0, 0, 0):
        raise Refused("still set")
    return "lifted"


@GROUP("run a set-uid program of another user", "claim", needs="other-owner")
def run_set_uid(scene: Scene) -> str:
    """A program gives the agent the rights of its owner."""
    if os.getuid() == 0 and not scene.boxed:
        os.setresuid(65534, 65534, 65534)
    done = subprocess.run([f"{scene.granted}/set-uid"], capture_output=True, text=True, timeout=5)
    if "euid=" not in done.stdout:
        raise Refused("its own uid")
    return done.stdout


def _leaves(id: str, text: str, do: str, mode: int = _SET_UID) -> None:
    """A file that must not have the bit afterwards: the marker is the file in the project."""

    def leave(scene: Scene) -> str:
        _LEAVE[do](f"{scene.project}/{id}", mode)
        return "left"

    kind = "group" if mode == _SET_GID else "user"
    GROUP.add(
        id,
        text,
        f"A program is left behind that gives whoever runs it the rights of the agent's {kind}.",
        "mark",
        leave,
        wall=_SECCOMP,
    )


def _by_chmod(path: str, mode: int) -> None:
    write(path)
    call("chmod", path, mode)


def _by_fchmod(path: str, mode: int) -> None:
    file = os.open(path, os.O_CREAT | os.O_RDWR, 0o755)
    call("fchmod", file, mode)


def _by_fchmodat(path: str, mode: int) -> None:
    write(path)
    call("fchmodat", _NOWHERE, path, mode)


def _by_fchmodat2(path: str, mode: int) -> None:
    write(path)
    call("fchmodat2", _NOWHERE, path, mode, 0)


def _by_open(path: str, mode: int) -> None:
    call("open", path, os.O_CREAT | os.O_RDWR, mode)


def _by_openat(path: str, mode: int) -> None:
    call("openat", _NOWHERE, path, os.O_CREAT | os.O_RDWR, mode)


def _by_creat(path: str, mode: int) -> None:
    call("creat", path, mode)


def _by_mknod(path: str, mode: int) -> None:
    call("mknod", path, 0o100000 | mode, 0)


def _by_mknodat(path: str, mode: int) -> None:
    call("mknodat", _NOWHERE, path, 0o100000 | mode, 0)


def _by_tmpfile(path: str, mode: int) -> None:
    file = call("openat", _NOWHERE, os.path.dirname(path), os.O_TMPFILE | os.O_RDWR, mode)
    call("linkat", _NOWHERE, f"/proc/self/fd/{file}", _NOWHERE, path, 0x400)


def _by_high_bits(path: str, mode: int) -> None:
    """The kernel takes the low 16 bits of a mode; a filter that compares more is dodged."""
    write(path)
    call("chmod", path, mode | 1 << 40)


def _by_x32(path: str, mode: int) -> None:
    if os.uname().machine != "x86_64":
        raise OSError(errno.ENOSYS, "x86-64 only")
    write(path)
    call(0x40000000 | 90, path, mode)


_LEAVE = {name[4:]: do for name, do in list(globals().items()) if name.startswith("_by_")}

for _way in ("chmod", "fchmod", "fchmodat", "fchmodat2", "open", "openat", "creat", "mknod",
             "mknodat"):  # fmt: skip
    _leaves(f"set-uid-by-{_way}", f"a set-uid file by {_way}", _way)
_leaves("set-uid-by-tmpfile", "a set-uid file by O_TMPFILE and linkat", "tmpfile")
_leaves("set-uid-by-high-bits", "a set-uid file, mode with high bits", "high_bits")
_leaves("set-uid-by-x32", "a set-uid file by the x32 chmod", "x32")
_leaves("set-gid-by-chmod", "a set-gid file by chmod", "chmod", _SET_GID)
_leaves("set-gid-by-openat", "a set-gid file by openat", "openat", _SET_GID)


@GROUP("give a file capabilities", "mark")
def file_capability(scene: Scene) -> str:
    """A program is left behind that has capabilities whoever runs it."""
    path = write(f"{scene.project}/file-capability")
    os.setxattr(path, "security.capability", struct.pack("<IIIII", 0x02000001, 1 << 21, 0, 0, 0))
    return "given"


@GROUP("give a file away", "mark")
def give_away(scene: Scene) -> str:
    """A file is left behind that belongs to somebody else."""
    path = write(f"{scene.project}/give-away")
    os.chown(path, 1 if os.getuid() != 1 else 2, -1)
    return "given"
