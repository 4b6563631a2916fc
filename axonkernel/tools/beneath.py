"""Opens exactly the path that was judged, by descriptors: no symlink is followed on the way.

Requests are resolved before they are judged, so a symlink met here was put there since, and
the call ends. Nothing is checked and then opened by name.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from axonkernel.tools.openat2 import open_beneath

__all__ = ["open_folder", "open_judged", "parent_of"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
#: O_PATH needs only the right to pass through; where it is missing reading is asked for.
_STEP = getattr(os, "O_PATH", 0) | _FOLDER


@contextmanager
def parent_of(path: str, make: Callable[[str], None] | None = None) -> Iterator[tuple[int, str]]:
    """(descriptor of the folder, name in it) of an absolute, resolved path.

    Arguments:
        make: called with the path of each missing folder before it is made (0755); None
            leaves missing folders missing.

    Raises OSError: ELOOP or ENOTDIR when a folder on the way is no folder any more.
    """
    *folders, name = path.strip("/").split("/")
    if not name:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    descriptor = os.open("/", _STEP)
    try:
        following = _at_once(descriptor, folders, missing_is_fine=make is not None)
        if following is not None:
            os.close(descriptor)
            descriptor = following
            folders = []
        walked = ""
        for folder in folders:
            walked = f"{walked}/{folder}"
            following = _step(descriptor, folder, walked, make)
            os.close(descriptor)
            descriptor = following
        yield descriptor, name
    finally:
        os.close(descriptor)


def _at_once(root: int, folders: list[str], *, missing_is_fine: bool) -> int | None:
    """The last of ``folders`` in one step; None when they have to be walked."""
    if not folders:
        return None
    try:
        return open_beneath(root, "/".join(folders), _STEP)
    except FileNotFoundError:
        if missing_is_fine:
            return None
        raise


def _step(parent: int, name: str, path: str, make: Callable[[str], None] | None) -> int:
    try:
        return os.open(name, _STEP, dir_fd=parent)
    except FileNotFoundError:
        if make is None:
            raise
    make(path)
    os.mkdir(name, 0o755, dir_fd=parent)
    return os.open(name, _STEP, dir_fd=parent)


@contextmanager
def open_judged(
    path: str, flags: int, *, mode: int = 0o644, make: Callable[[str], None] | None = None
) -> Iterator[int]:
    """A descriptor of the regular file at an absolute, resolved path.

    Raises OSError, also for what is no regular file: a FIFO or a device must not hold or
    command the caller.
    """
    with parent_of(path, make) as (folder, name):
        # Not blocking: opening a FIFO would otherwise wait for its other end.
        descriptor = os.open(
            name, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode, dir_fd=folder
        )
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "not a regular file", path)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def open_folder(path: str) -> Iterator[int]:
    """A descriptor of the folder at an absolute, resolved path, to list it."""
    if path.strip("/") == "":
        descriptor = os.open("/", _FOLDER)
    else:
        with parent_of(path) as (folder, name):
            descriptor = os.open(name, _FOLDER, dir_fd=folder)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
