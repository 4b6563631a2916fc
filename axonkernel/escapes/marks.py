"""Whether places are as they were."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Mapping
from pathlib import Path

__all__ = ["Marks"]

_ENOUGH_BYTES = 1 << 16
_SCRATCH = ("/tmp", "/var/tmp", "/dev/shm")


class Marks:
    """How places looked at the beginning, and which of them have changed.

    Arguments:
        places: each with the attempt it belongs to.
        programs: files that an attempt may make, with it; only rights that it gave away count.
        owner: to whom those may belong.
        scratch: the beginning of names in folders where all users meet.
    """

    def __init__(
        self, places: Mapping[Path, str], programs: Mapping[Path, str], owner: int, scratch: str
    ) -> None:
        self._places, self._programs, self._owner = places, programs, owner
        self._before = {path: _look(path) for path in places}
        self._left = [Path(folder, f"{scratch}-write-scratch") for folder in _SCRATCH]

    def changed(self) -> set[str]:
        """The attempts that changed something."""
        changed = {name for path, name in self._places.items() if self._before[path] != _look(path)}
        changed |= {name for path, name in self._programs.items() if _rights(path, self._owner)}
        return changed | {"write-scratch" for path in self._left if path.exists()}

    def clear(self) -> None:
        """Remove what was left in folders where all users meet."""
        for path in self._left:
            with contextlib.suppress(OSError):
                path.unlink()


Look = tuple[object, ...] | None


def _look(path: Path) -> Look:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    content = b""
    if stat.S_ISREG(found.st_mode):
        with contextlib.suppress(OSError), open(path, "rb") as file:
            content = file.read(_ENOUGH_BYTES)
    names: list[str] = []
    with contextlib.suppress(OSError):
        names = os.listxattr(path, follow_symlinks=False)
    return (found.st_mode, found.st_uid, found.st_size, found.st_mtime_ns, content, tuple(names))


def _rights(path: Path, owner: int) -> bool:
    """Whether a file gives more than its owner's rights to whoever runs it."""
    try:
        found = os.lstat(path)
        names = os.listxattr(path, follow_symlinks=False)
    except OSError:
        return False
    return bool(
        found.st_mode & (stat.S_ISUID | stat.S_ISGID)
        or found.st_uid != owner
        or "security.capability" in names
    )
