"""What the keeper lays over single names: empty files and folders, and the same again.

Standard library only. The caller is in the box's mount namespace, with the capabilities of the
user namespace that owns it.
"""

from __future__ import annotations

import os

from axonkernel.box.mounts import (
    MOUNT_NODEV,
    MOUNT_NOEXEC,
    MOUNT_NOSUID,
    MOUNT_RDONLY,
    clone_tree,
    mount_setattr,
    move_mount,
    new_mount,
)

__all__ = ["EmptyFiles", "empty_folder", "same_again"]

_CLOSED = MOUNT_NOSUID | MOUNT_NODEV | MOUNT_NOEXEC


class EmptyFiles:
    """Mounts whose root is an empty file that nobody may open, all of one file system.

    That lies at ``place``, a folder, and over it the same folder again: no name leads to it,
    and kernels before 6.15 clone only what is attached somewhere. It stays there: to let go of
    one takes the kernel milliseconds.
    """

    def __init__(self, place: str) -> None:
        self._tmpfs = new_mount("tmpfs", {"mode": "0755"}, _CLOSED)
        os.close(os.open("m", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0, dir_fd=self._tmpfs))
        mount_setattr(self._tmpfs, MOUNT_RDONLY)
        above = _copy_of(place)
        for mount in (self._tmpfs, above):
            _put_onto(place, mount)
        os.close(above)

    def another(self) -> int:
        """One more; not attached yet."""
        return clone_tree(self._tmpfs, "m")


def _copy_of(path: str) -> int:
    folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return clone_tree(folder, recursive=True)
    finally:
        os.close(folder)


def _put_onto(path: str, mount: int) -> None:
    folder = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        move_mount(mount, folder)
    finally:
        os.close(folder)


def empty_folder() -> int:
    """A mount whose root is an empty folder that nobody may enter; not attached yet."""
    return new_mount("tmpfs", {"mode": "0"}, _CLOSED | MOUNT_RDONLY)


def same_again(place: int, *, read_only: bool) -> int:
    """A mount of what lies at a place, with all that is mounted below it; not attached yet."""
    mount = clone_tree(place, recursive=True)
    if read_only:
        mount_setattr(mount, MOUNT_RDONLY)
    return mount
