"""The few system calls Python has no name for, by ctypes.

Standard library only: the warden and the first code inside the box use it.
"""

from __future__ import annotations

import ctypes
import os
import signal

from axonkernel.typed import Any

__all__ = [
    "CLONE_NEWNET",
    "CLONE_NEWNS",
    "CLONE_NEWUSER",
    "bind_privately",
    "child_subreaper",
    "close_on_exec_from",
    "default_signals",
    "die_with_parent",
    "look_up",
    "no_new_privs",
    "open_beneath",
    "open_in_root",
    "own_mount_namespace",
    "owning_user_namespace",
    "ptrace",
    "set_namespace",
    "syscall",
]

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000

_MS_BIND, _MS_REC, _MS_PRIVATE, _MS_SLAVE = 0x1000, 0x4000, 0x40000, 0x80000
_NS_GET_USERNS = 0xB701
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SYS_CLOSE_RANGE = 436
_CLOSE_RANGE_CLOEXEC = 4
_SYS_OPENAT2 = 437
_AT_FDCWD = -100
_RESOLVE_NO_MAGICLINKS = 0x02
_RESOLVE_NO_SYMLINKS = 0x04
_RESOLVE_BENEATH = 0x08
_RESOLVE_IN_ROOT = 0x10

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long
_libc.ptrace.restype = ctypes.c_long
_libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)


def _checked(result: int, what: str) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result


def syscall(number: int, *args: Any) -> int:
    """A raw system call; raises OSError with its errno."""
    return _checked(_libc.syscall(ctypes.c_long(number), *args), f"syscall {number}")


def set_namespace(fd: int, kind: int) -> None:
    """Join the namespace behind ``fd``. The process must have one thread."""
    _checked(_libc.setns(fd, kind), "setns")


def owning_user_namespace(fd: int) -> int:
    """A descriptor of the user namespace that owns the namespace behind ``fd``."""
    return _checked(_libc.ioctl(fd, ctypes.c_ulong(_NS_GET_USERNS)), "NS_GET_USERNS")


def bind_privately(source: str, name: str) -> str:
    """Give a file the path ``/tmp/NAME``, for this process and its children alone.

    They get a mount namespace of their own, with an empty /tmp. Needs CAP_SYS_ADMIN.
    """
    target = f"/tmp/{name}"
    _checked(_libc.unshare(CLONE_NEWNS), "unshare")
    _mount(b"none", "/", None, _MS_REC | _MS_PRIVATE)
    _mount(b"axonkernel", "/tmp", b"tmpfs", 0)
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    _mount(os.fsencode(source), target, None, _MS_BIND)
    return target


def own_mount_namespace() -> None:
    """Leave the host's mount namespace: what is mounted from now on is this process's alone.

    What the host unmounts is unmounted here too. Without CAP_SYS_ADMIN a user namespace is
    made as well, in which this process is uid 0: a terminal's devpts belongs to that. Raises
    OSError where the host allows neither.
    """
    uid, gid = os.getuid(), os.getgid()  # not to be had afterwards
    try:
        _checked(_libc.unshare(CLONE_NEWNS), "unshare")
    except PermissionError:
        _checked(_libc.unshare(CLONE_NEWUSER | CLONE_NEWNS), "unshare")
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"0 {uid} 1"),
            ("gid_map", f"0 {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
                file.write(text)
    _mount(b"none", "/", None, _MS_REC | _MS_SLAVE)


def _mount(source: bytes, target: str, kind: bytes | None, flags: int) -> None:
    result = _libc.mount(source, os.fsencode(target), kind, ctypes.c_ulong(flags), None)
    _checked(result, f"mount {target}")


def ptrace(request: int, pid: int, address: int = 0, data: int = 0) -> int:
    """ptrace(2); raises OSError. All calls for one tracee come from one thread."""
    return _checked(_libc.ptrace(request, pid, address, data), f"ptrace {request:#x}")


def _prctl(option: int, value: int) -> None:
    zero = ctypes.c_ulong(0)
    _checked(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero), f"prctl {option}")


def die_with_parent(signal: int) -> None:
    """Get ``signal`` when the thread that forked this process ends."""
    _prctl(_PR_SET_PDEATHSIG, signal)


def child_subreaper() -> None:
    """Orphaned descendants become children of this process, not of init."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def no_new_privs() -> None:
    """No exec below this process gains privileges."""
    _prctl(_PR_SET_NO_NEW_PRIVS, 1)


def close_on_exec_from(first: int) -> None:
    """Mark every descriptor from ``first`` up: whatever was inherited goes no further."""
    syscall(_SYS_CLOSE_RANGE, first, ctypes.c_uint(0xFFFFFFFF), _CLOSE_RANGE_CLOEXEC)


def default_signals() -> None:
    """Undo for the next program what Python and our other processes ignore."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)


class _OpenHow(ctypes.Structure):
    _fields_ = (
        ("flags", ctypes.c_uint64),
        ("mode", ctypes.c_uint64),
        ("resolve", ctypes.c_uint64),
    )


def open_in_root(root_fd: int, path: str, flags: int) -> int:
    """Open ``path`` as if ``root_fd`` were /; symlinks stay inside it (openat2)."""
    return _openat2(root_fd, path, flags, _RESOLVE_IN_ROOT | _RESOLVE_NO_MAGICLINKS)


def look_up(path: str, folder: int = _AT_FDCWD) -> int:
    """Name what lies at ``path`` (O_PATH), itself when it is a link; a link above is ELOOP."""
    how = _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS
    return _openat2(folder, path, os.O_PATH | os.O_NOFOLLOW, how)


def _openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    return syscall(_SYS_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))


def open_beneath(folder_fd: int, path: str, flags: int = os.O_PATH) -> int:
    """Open what lies at ``path`` below a folder; a symlink anywhere in it is ELOOP."""
    how = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS
    return _openat2(folder_fd, path.lstrip("/") or ".", flags, how)
