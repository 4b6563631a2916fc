"""What lies over names in a box, put there by a process in its mount namespace.

Standard library only.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import stat
import time
from collections.abc import Callable

from axonkernel.box.channel import Channel
from axonkernel.box.linux import look_up
from axonkernel.box.model import Kept
from axonkernel.box.mounts import is_mount, put
from axonkernel.box.openings import is_open_to_write
from axonkernel.box.overmount import EmptyFiles, empty_folder, same_again
from axonkernel.errors import BoxError

__all__ = ["ABSENT", "Covers"]

#: What says that a name is not there, or not to be reached by its path.
ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES)
#: A folder that every box has as its own, and that a program hardly needs in its first moment:
#: while that is covered by what it was, it is not there (EmptyFiles).
_PLACE = "/var/tmp"
#: How often, and how far apart, a folder that the box has open is looked at (seconds).
_LOOKS = 4
_LOOK_AGAIN_S = 0.01
#: A name that is exchanged all the time is one kind of thing in every second try.
_TRIES = 64


class Covers:
    """What lies over the names of one box.

    Arguments:
        steward: makes stubs on the host; None where none are needed.
        is_granted: whether a name lies in a grant of the box.
    """

    def __init__(self, steward: Channel | None, is_granted: Callable[[str], bool]) -> None:
        self._steward = steward
        self._is_granted = is_granted
        self._places: dict[str, int] = {}
        self._files = EmptyFiles(_PLACE)
        self._spare = self._files.another()
        #: Whether the box's program runs, and may have opened what is covered from now on.
        self.runs = False

    def cover_quickly(self, path: str) -> None:
        """Mask a file in a folder that is known already, whatever lies over it: every
        microsecond here is one in which the name is open. Does nothing when it cannot."""
        folder = self._places.get(posixpath.dirname(path), -1)
        if folder >= 0:
            with contextlib.suppress(OSError):
                put(self._spare, folder, posixpath.basename(path))
                os.close(self._spare)
                self._spare = self._files.another()

    def hold(self, item: Kept) -> bool:
        """See that something lies over a name; whether that had to be put there.

        Raises BoxError when the box may have got hold of what it must not write.
        """
        for last in range(_TRIES - 1, -1, -1):
            try:
                return self._held(item)
            except OSError as error:
                # EINVAL: exchanged between two calls, for something of another kind, or its
                # folder was.
                if error.errno in ABSENT:
                    return False  # gone again: there will be another event
                if error.errno != errno.EINVAL or not last:
                    raise
        return False

    def _held(self, item: Kept) -> bool:
        folder_path, name = posixpath.split(item.path)
        folder = self._place(folder_path)
        try:
            if is_mount(folder, name):
                return False
        except OSError as error:
            if error.errno not in ABSENT or not self._is_made(item):
                raise
        self._put(item, folder, name)
        if item.how == "read-only" and self.runs:
            _require_unopened(item.path)
        return True

    def _put(self, item: Kept, folder: int, name: str) -> None:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        leads = ""
        if stat.S_ISLNK(found.st_mode):
            leads = item.source or os.path.realpath(item.path)
        mount = -1
        if item.how != "mask":
            with contextlib.suppress(OSError):
                mount = _same_again(item, folder, name, leads)
        if mount < 0:
            is_folder = stat.S_ISDIR(found.st_mode)
            mount = empty_folder() if is_folder else self._files.another()
        try:
            put(mount, folder, name)
        finally:
            os.close(mount)
        if leads and item.how == "mask" and self._is_granted(leads):
            self.hold(Kept(leads, "mask"))

    def _is_made(self, item: Kept) -> bool:
        """Have the steward put a stub at a name that is not there."""
        if not item.stub or self._steward is None:
            return False
        self._steward.send({"op": "make", "item": item})
        answer, _ = self._steward.receive()
        return bool(answer["made"])

    def _place(self, path: str) -> int:
        """A folder in the box as it is now, links in its path not followed."""
        found = look_up(path)
        if path in self._places:
            os.close(self._places[path])
        self._places[path] = found
        return found


def _same_again(item: Kept, folder: int, name: str, leads: str) -> int:
    """What lies at the name, or where a link there leads: a file, since only a file can be put
    over a link."""
    place = look_up(leads) if leads else look_up(name, folder)
    try:
        if leads and stat.S_ISDIR(os.fstat(place).st_mode):
            raise IsADirectoryError(errno.EISDIR, leads)
        return same_again(place, read_only=item.how != "pin")
    finally:
        os.close(place)


def _require_unopened(path: str) -> None:
    """A descriptor that the box has got meanwhile would write past any mount."""
    found = os.stat(path)
    folder = stat.S_ISDIR(found.st_mode)
    # Who only lists a folder has let go of it by the last look.
    for _ in range(_LOOKS if folder else 1):
        if not is_open_to_write(found.st_dev, found.st_ino, folder=folder):
            return
        time.sleep(_LOOK_AGAIN_S)
    raise BoxError("keeper", f"{path} was opened for writing while the host replaced it")
