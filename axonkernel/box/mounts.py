"""The mount API by descriptors: mounts are made detached, and then put onto a place.

Linux 5.12. What newer kernels allow is not used: before 6.15 only what is attached in the
caller's mount namespace can be cloned, and nothing be put onto a detached mount. The caller
has the capabilities of the user namespace that owns its mount namespace. Standard library only.
"""

from __future__ import annotations

import ctypes
import os

from axonkernel.box.linux import syscall

__all__ = [
    "MOUNT_NODEV",
    "MOUNT_NOEXEC",
    "MOUNT_NOSUID",
    "MOUNT_RDONLY",
    "clone_tree",
    "is_mount",
    "mount_setattr",
    "move_mount",
    "new_mount",
    "put",
]

#: Attributes of one mount (new_mount, mount_setattr).
MOUNT_RDONLY, MOUNT_NOSUID, MOUNT_NODEV, MOUNT_NOEXEC = 1, 2, 4, 8

# From 424 on, numbers are the same on every processor.
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442
_SYS_FSOPEN, _SYS_FSCONFIG, _SYS_FSMOUNT = 430, 431, 432
_AT_SYMLINK_NOFOLLOW, _AT_NO_AUTOMOUNT, _AT_EMPTY_PATH, _AT_RECURSIVE = 0x100, 0x800, 0x1000, 0x8000
_OPEN_TREE_CLONE = 1
_MOVE_MOUNT_FROM_FD, _MOVE_MOUNT_TO_FD = 0x04, 0x40
_CLOEXEC = 1  # of fsopen and fsmount
_FSCONFIG_SET_STRING, _FSCONFIG_CMD_CREATE = 1, 6
_MS_PRIVATE = 0x40000
_STATX_ATTR_MOUNT_ROOT = 0x2000

_libc = ctypes.CDLL(None, use_errno=True)


class _MountAttr(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")
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


def clone_tree(place: int, name: str = "", *, recursive: bool = False) -> int:
    """A detached copy of the mount that an object lies in, rooted there.

    Arguments:
        place: a descriptor of the object, O_PATH suffices; its mount is one of this namespace,
            and attached.
        name: of the object in the folder ``place``; one that is a link is not followed.
        recursive: with what is mounted below it. Without, below a mount that a less
            privileged namespace got locked, EINVAL.
    """
    flags = _OPEN_TREE_CLONE | os.O_CLOEXEC | _AT_EMPTY_PATH | _AT_SYMLINK_NOFOLLOW
    flags |= _AT_RECURSIVE if recursive else 0
    return syscall(_SYS_OPEN_TREE, place, os.fsencode(name), ctypes.c_uint(flags))


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


def move_mount(mount: int, place: int) -> None:
    """Put a detached mount, with all below it, onto the place behind a descriptor (O_PATH).

    Arguments:
        mount: of clone_tree or new_mount, also one made in another namespace.
    """
    how = ctypes.c_uint(_MOVE_MOUNT_FROM_FD | _MOVE_MOUNT_TO_FD)
    syscall(_SYS_MOVE_MOUNT, mount, b"", place, b"", how)


def put(mount: int, folder: int, name: str) -> None:
    """Put a detached mount over one name in a folder; a link there is covered, not followed."""
    how = ctypes.c_uint(_MOVE_MOUNT_FROM_FD)
    syscall(_SYS_MOVE_MOUNT, mount, b"", folder, os.fsencode(name), how)


def is_mount(folder: int, name: str) -> bool:
    """Whether something is mounted over a name; raises FileNotFoundError when it is not there."""
    found = ctypes.create_string_buffer(256)
    flags = _AT_SYMLINK_NOFOLLOW | _AT_NO_AUTOMOUNT
    # By the library: the number of this call differs between processors.
    if _libc.statx(folder, os.fsencode(name), flags, ctypes.c_uint(0), found) != 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code), name)
    attributes = int.from_bytes(found.raw[8:16], "little")
    return bool(attributes & _STATX_ATTR_MOUNT_ROOT)
