"""System calls by number, as code without a library would make them. Standard library only."""

from __future__ import annotations

import ctypes
import errno
import os
import platform

__all__ = ["NUMBERS", "call", "number", "reaches"]

#: x86-64 and arm64; from 424 on they are the same. 0: this processor has no such call.
NUMBERS: dict[str, tuple[int, int]] = {
    "acct": (163, 89), "add_key": (248, 217), "bpf": (321, 280), "capset": (126, 91),
    "chmod": (90, 0), "chroot": (161, 51), "clone": (56, 220), "clone3": (435, 435),
    "creat": (85, 0), "delete_module": (176, 106), "execveat": (322, 281),
    "fanotify_init": (300, 262), "fanotify_mark": (301, 263), "fchmod": (91, 52),
    "fchmodat": (268, 53), "fchmodat2": (452, 452), "finit_module": (313, 273),
    "fsconfig": (431, 431), "fsmount": (432, 432), "fsopen": (430, 430), "fspick": (433, 433),
    "init_module": (175, 105), "io_uring_setup": (425, 425), "ioperm": (173, 0),
    "iopl": (172, 0), "ioprio_set": (251, 30), "kcmp": (312, 272),
    "kexec_file_load": (320, 294), "kexec_load": (246, 104), "keyctl": (250, 219),
    "linkat": (265, 37), "memfd_create": (319, 279), "migrate_pages": (256, 238),
    "mknod": (133, 0), "mknodat": (259, 33), "mount": (165, 40), "mount_setattr": (442, 442),
    "move_mount": (429, 429), "move_pages": (279, 239), "mq_open": (240, 180),
    "mq_timedreceive": (243, 183), "name_to_handle_at": (303, 264), "open": (2, 0),
    "open_by_handle_at": (304, 265), "open_tree": (428, 428), "openat": (257, 56),
    "openat2": (437, 437), "perf_event_open": (298, 241), "pidfd_getfd": (438, 438),
    "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "pivot_root": (155, 41),
    "prctl": (157, 167), "process_madvise": (440, 440), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "ptrace": (101, 117), "quotactl": (179, 60),
    "quotactl_fd": (443, 443), "reboot": (169, 142), "renameat2": (316, 276),
    "request_key": (249, 218), "seccomp": (317, 277), "setns": (308, 268),
    "sethostname": (170, 161), "shmat": (30, 196), "shmget": (29, 194),
    "swapoff": (168, 225), "swapon": (167, 224), "syslog": (103, 116), "umount2": (166, 39),
    "unshare": (272, 97), "userfaultfd": (323, 282),
}  # fmt: skip

_ARM = platform.machine() == "aarch64"
_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def number(name: str) -> int:
    """The number of a call. Raises OSError (ENOSYS) where this processor has none."""
    found = NUMBERS[name][_ARM]
    if not found:
        raise OSError(errno.ENOSYS, name)
    return found


def call(which: str | int, *arguments: object) -> int:
    """Make a system call; text becomes a path, None a null pointer. Raises OSError."""
    code = number(which) if isinstance(which, str) else which
    values = [
        ctypes.c_char_p(os.fsencode(value)) if isinstance(value, str)
        else ctypes.c_void_p(value) if value is None
        else ctypes.c_long(value) if isinstance(value, int)
        else value
        for value in arguments
    ]  # fmt: skip
    result = int(_libc.syscall(ctypes.c_long(code), *values))
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error), str(which))
    return result


def reaches(which: str, *arguments: object, answers: tuple[int, ...] = ()) -> str:
    """Make a call whose arguments make no sense, so that it does no harm.

    Arguments:
        answers: errnos by which the call itself complains of them: privilege and filter let
            it through then.

    Raises OSError for every other answer.
    """
    try:
        call(which, *arguments)
    except OSError as error:
        if error.errno not in answers:
            raise
        return f"{which} answered {errno.errorcode[error.errno or 0]}"
    return f"{which} worked"
