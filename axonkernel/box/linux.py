"""The few system calls Python has no name for, by ctypes.

Standard library only: the warden and the first code inside the box use it.
"""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Any

__all__ = [
    "CLONE_NEWNET",
    "CLONE_NEWNS",
    "CLONE_NEWUSER",
    "MOUNT_NODEV",
    "MOUNT_NOEXEC",
    "MOUNT_NOSUID",
    "MOUNT_RDONLY",
    "bind_privately",
    "bind_to",
    "child_subreaper",
    "clone_tree",
    "close_on_exec_from",
    "default_signals",
    "die_with_parent",
    "enter_mount_namespace",
    "mount_setattr",
    "move_mount",
    "new_mount",
    "no_new_privs",
    "open_beneath",
    "open_in_root",
    "open_tree",
    "open_without_links",
    "own_mount_namespace",
    "owning_user_namespace",
    "ptrace",
    "set_namespace",
    "syscall",
    "unmount",
]

CLONE_NEWNS = 0x00020000
CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000

#: Attributes of one mount (new_mount, mount_setattr).
MOUNT_RDONLY, MOUNT_NOSUID, MOUNT_NODEV, MOUNT_NOEXEC = 1, 2, 4, 8

_MS_BIND, _MS_REC, _MS_PRIVATE, _MS_SLAVE = 0x1000, 0x4000, 0x40000, 0x80000
_NS_GET_USERNS = 0xB701
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SYS_CLOSE_RANGE = 436
_CLOSE_RANGE_CLOEXEC = 4
_SYS_OPEN_TREE = 428
_OPEN_TREE_CLONE = 1
_AT_RECURSIVE = 0x8000
_AT_EMPTY_PATH = 0x1000
_SYS_MOVE_MOUNT = 429
_SYS_FSOPEN, _SYS_FSCONFIG, _SYS_FSMOUNT, _SYS_MOUNT_SETATTR = 430, 431, 432, 442
_CLOEXEC = 1  # of fsopen and fsmount
_FSCONFIG_SET_STRING, _FSCONFIG_CMD_CREATE = 1, 6
_MOVE_MOUNT_FROM_FD = 0x04
_SYS_OPENAT2 = 437
_MOVE_MOUNT_TO_FD = 0x40
_MNT_DETACH = 2
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


def open_without_links(path: str) -> int:
    """Name what lies at an absolute path (O_PATH); a symlink anywhere in it is ELOOP."""
    return _openat2(_AT_FDCWD, path, os.O_PATH, _RESOLVE_NO_SYMLINKS)


def _openat2(folder: int, path: str, flags: int, resolve: int) -> int:
    how = _OpenHow(flags | os.O_CLOEXEC, 0, resolve)
    return syscall(_SYS_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))


def open_beneath(folder_fd: int, path: str, flags: int = os.O_PATH) -> int:
    """Open what lies at ``path`` below a folder; a symlink anywhere in it is ELOOP."""
    how = _RESOLVE_BENEATH | _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS
    return _openat2(folder_fd, path.lstrip("/") or ".", flags, how)


# -- mounts by descriptor ---------------------------------------------------------------


def open_tree(path: str) -> int:
    """What is mounted at a path, where it is: to be moved."""
    return syscall(_SYS_OPEN_TREE, _AT_FDCWD, os.fsencode(path), ctypes.c_uint(os.O_CLOEXEC))


def clone_tree(fd: int, *, recursive: bool = False) -> int:
    """A detached copy of the mount that the object behind ``fd`` lies in, rooted there.

    Arguments:
        fd: of any kind of file, O_PATH suffices; its mount is one of this namespace.
        recursive: with what is mounted below it. Without, below a mount that a less
            privileged namespace got locked, EINVAL.

    Needs CAP_SYS_ADMIN in the namespace, as all that follow.
    """
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH
    return syscall(
        _SYS_OPEN_TREE, fd, b"", ctypes.c_uint(flags | (_AT_RECURSIVE if recursive else 0))
    )


def new_mount(kind: str, options: dict[str, str], attributes: int) -> int:
    """A detached mount of a new file system.

    Arguments:
        kind: such as ``tmpfs``.
        options: of the file system, such as ``{"mode": "0700", "size": "4096"}``.
        attributes: MOUNT_RDONLY and the like, of the mount.
    """
    context = syscall(_SYS_FSOPEN, kind.encode(), _CLOEXEC)
    try:
        for name, value in {"source": "axonkernel", **options}.items():
            text = name.encode(), value.encode()
            syscall(_SYS_FSCONFIG, context, _FSCONFIG_SET_STRING, *text, 0)
        syscall(_SYS_FSCONFIG, context, _FSCONFIG_CMD_CREATE, None, None, 0)
        return syscall(_SYS_FSMOUNT, context, _CLOEXEC, attributes)
    finally:
        os.close(context)


class _MountAttr(ctypes.Structure):
    _fields_ = (
        ("attr_set", ctypes.c_uint64),
        ("attr_clr", ctypes.c_uint64),
        ("propagation", ctypes.c_uint64),
        ("userns_fd", ctypes.c_uint64),
    )


def mount_setattr(fd: int, attributes: int, *, recursive: bool = False) -> None:
    """Add ``attributes`` to the mount behind ``fd``, and cut it from what others mount.

    Arguments:
        fd: the root of the mount, or of a detached one.
        recursive: to every mount below it as well.
    """
    change = _MountAttr(attributes, 0, _MS_PRIVATE, 0)
    flags = ctypes.c_uint(_AT_EMPTY_PATH | (_AT_RECURSIVE if recursive else 0))
    size = ctypes.sizeof(change)
    syscall(_SYS_MOUNT_SETATTR, fd, b"", flags, ctypes.byref(change), size)


def move_mount(mount_fd: int, place_fd: int) -> None:
    """Put a mount, with all below it, onto the place behind a descriptor (O_PATH).

    Arguments:
        mount_fd: detached (clone_tree, new_mount), also one made in another namespace, or
            in its place (open_tree).
    """
    how = ctypes.c_uint(_MOVE_MOUNT_FROM_FD | _MOVE_MOUNT_TO_FD)
    syscall(_SYS_MOVE_MOUNT, mount_fd, b"", place_fd, b"", how)


def bind_to(path: str, place_fd: int) -> None:
    """Bind what lies at a path, with the flags of its mount, onto the place behind a
    descriptor."""
    source = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    tree = clone_tree(source)
    os.close(source)
    try:
        move_mount(tree, place_fd)
    finally:
        os.close(tree)


def enter_mount_namespace(pid: int) -> None:
    """Join the mount namespace of process ``pid``, with every right there.

    The user namespace that owns it may be nested several deep below this process's. It is
    joined at once: who owns a user namespace, or has CAP_SYS_ADMIN above it, has every
    right in all those below. What was opened before still leads to where it led. The
    process must have one thread, and shares no folder with another (fork it).
    """
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    owner = owning_user_namespace(mounts)
    try:
        own = os.stat("/proc/self/ns/user")
        there = os.fstat(owner)
        if (there.st_dev, there.st_ino) != (own.st_dev, own.st_ino):
            set_namespace(owner, CLONE_NEWUSER)
        set_namespace(mounts, CLONE_NEWNS)
    finally:
        os.close(owner)
        os.close(mounts)


def unmount(path: str) -> None:
    """Take away what is mounted at a path, as soon as nothing uses it."""
    _checked(_libc.umount2(os.fsencode(path), _MNT_DETACH), f"umount {path}")
