"""Mounts put over single names, by descriptors (the new mount API).

Standard library only. The caller is in the mount namespace, with the capabilities of the user
namespace that owns it.
"""

from __future__ import annotations

import ctypes
import os

from axonkernel.box.linux import syscall

__all__ = ["EmptyFiles", "empty_folder", "is_mount", "looked_up", "put", "same_again"]

_STATX, _OPEN_TREE, _MOVE_MOUNT, _FSOPEN, _FSCONFIG, _FSMOUNT = 332, 428, 429, 430, 431, 432
_OPENAT2, _MOUNT_SETATTR = 437, 442

_AT_FDCWD, _AT_SYMLINK_NOFOLLOW, _AT_NO_AUTOMOUNT, _AT_EMPTY_PATH = -100, 0x100, 0x800, 0x1000
_AT_RECURSIVE = 0x8000
_OPEN_TREE_CLONE = 1
_F_EMPTY_PATH, _T_EMPTY_PATH = 0x04, 0x40
_CONFIG_STRING, _CONFIG_CREATE = 1, 6
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV, _ATTR_NOEXEC = 1, 2, 4, 8
_STATX_ATTR_MOUNT_ROOT = 0x2000
_RESOLVE_NO_MAGICLINKS, _RESOLVE_NO_SYMLINKS = 0x02, 0x04


class _MountAttr(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "userns_fd")
    )


class _OpenHow(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint64) for name in ("flags", "mode", "resolve"))


class EmptyFiles:
    """Mounts whose root is an empty file that nobody may open, all of one file system.

    Its own mount is kept: to let go of one takes the kernel milliseconds.
    """

    def __init__(self) -> None:
        self._tmpfs = _tmpfs(0o755)
        os.close(os.open("m", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0, dir_fd=self._tmpfs))
        _set_attributes(self._tmpfs, _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV | _ATTR_NOEXEC)

    def another(self) -> int:
        """One more; not attached yet."""
        return _clone(self._tmpfs, "m")


def empty_folder() -> int:
    """A mount whose root is an empty folder that nobody may enter; not attached yet."""
    mount = _tmpfs(0)
    _set_attributes(mount, _ATTR_RDONLY)
    return mount


def _tmpfs(mode: int) -> int:
    context = syscall(_FSOPEN, b"tmpfs", ctypes.c_uint(1))
    try:
        text = f"{mode:o}".encode()
        syscall(_FSCONFIG, context, ctypes.c_uint(_CONFIG_STRING), b"mode", text, 0)
        syscall(_FSCONFIG, context, ctypes.c_uint(_CONFIG_CREATE), None, None, 0)
        flags = _ATTR_NOSUID | _ATTR_NODEV | _ATTR_NOEXEC
        return syscall(_FSMOUNT, context, ctypes.c_uint(1), ctypes.c_uint(flags))
    finally:
        os.close(context)


def same_again(place: int, *, read_only: bool) -> int:
    """A mount of what lies at a place, with all that is mounted below it; not attached yet."""
    mount = _clone(place, "", _AT_RECURSIVE)
    if read_only:
        _set_attributes(mount, _ATTR_RDONLY)
    return mount


def _clone(folder: int, name: str, more: int = 0) -> int:
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | _AT_SYMLINK_NOFOLLOW | more
    return syscall(_OPEN_TREE, folder, os.fsencode(name), ctypes.c_uint(flags))


def _set_attributes(mount: int, flags: int) -> None:
    attr = _MountAttr(flags, 0, 0, 0)
    how = ctypes.c_uint(_AT_EMPTY_PATH)
    syscall(_MOUNT_SETATTR, mount, b"", how, ctypes.byref(attr), ctypes.sizeof(attr))


def put(mount: int, folder: int, name: str) -> None:
    """Attach a mount over one name in a folder; a link there is covered, not followed."""
    how = ctypes.c_uint(_F_EMPTY_PATH)
    syscall(_MOVE_MOUNT, mount, b"", folder, os.fsencode(name), how)


def looked_up(path: str, folder: int = _AT_FDCWD) -> int:
    """Name what lies at ``path`` (O_PATH), itself when it is a link; a link above is ELOOP."""
    flags = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
    how = _OpenHow(flags, 0, _RESOLVE_NO_SYMLINKS | _RESOLVE_NO_MAGICLINKS)
    return syscall(_OPENAT2, folder, os.fsencode(path), ctypes.byref(how), ctypes.sizeof(how))


def is_mount(folder: int, name: str) -> bool:
    """Whether something is mounted over a name; raises FileNotFoundError when it is not there."""
    found = ctypes.create_string_buffer(256)
    flags = ctypes.c_int(_AT_SYMLINK_NOFOLLOW | _AT_NO_AUTOMOUNT)
    syscall(_STATX, folder, os.fsencode(name), flags, ctypes.c_uint(0), found)
    attributes = int.from_bytes(found.raw[8:16], "little")
    return bool(attributes & _STATX_ATTR_MOUNT_ROOT)
