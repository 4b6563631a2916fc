"""inotify(7) by ctypes: what happens to the names in a few folders.

Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterator

from axonkernel.typed import NamedTuple

__all__ = ["GONE", "IS_FOLDER", "MADE", "MOVED_AWAY", "OVERFLOW", "Event", "Folders"]

#: A name has come into being, or now names something else.
MADE = 0x80 | 0x100
#: A name has ceased to be.
MOVED_AWAY = 0x40 | 0x200
#: The folder itself is not where it was, or is no more.
GONE = 0x400 | 0x800 | 0x2000 | 0x8000
OVERFLOW = 0x4000
IS_FOLDER = 0x40000000
_ONLYDIR = 0x01000000
_MASK = MADE | MOVED_AWAY | 0x400 | 0x800 | _ONLYDIR

_HEAD = struct.Struct("iIII")
_ENOUGH_BYTES = 65536

_libc = ctypes.CDLL(None, use_errno=True)


class Event(NamedTuple):
    """One change. ``name`` is "" when it is the folder's own."""

    folder: str
    name: str
    mask: int


class Folders:
    """The folders that are watched, by path. Not thread-safe."""

    def __init__(self) -> None:
        self._fd = _checked(_libc.inotify_init1(os.O_CLOEXEC | os.O_NONBLOCK))
        self._paths: dict[int, str] = {}

    def fileno(self) -> int:
        """Readable when something has happened."""
        return self._fd

    def __len__(self) -> int:
        return len(self._paths)

    def add(self, path: str, folder: int) -> None:
        """Watch the folder behind a descriptor (O_PATH will do) under the name ``path``.

        Changes the working directory: a descriptor of another mount namespace has no path.
        Raises OSError, with ENOSPC when this user may watch no more.
        """
        os.fchdir(folder)
        watch = _checked(_libc.inotify_add_watch(self._fd, b".", ctypes.c_uint32(_MASK)))
        self._paths[watch] = path

    def read(self) -> Iterator[Event]:
        """What has happened since the last call; nothing when that is so."""
        try:
            data = os.read(self._fd, _ENOUGH_BYTES)
        except BlockingIOError:
            return
        at = 0
        while at < len(data):
            watch, mask, _, length = _HEAD.unpack_from(data, at)
            name = data[at + _HEAD.size : at + _HEAD.size + length].rstrip(b"\0")
            at += _HEAD.size + length
            if mask & OVERFLOW:
                yield Event("", "", mask)
            elif watch in self._paths:
                yield Event(self._paths[watch], os.fsdecode(name), mask)
            if mask & 0x8000:  # the kernel has let go of it
                self._paths.pop(watch, None)


def _checked(result: int) -> int:
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"inotify: {os.strerror(code)}")
    return result
