"""What every row is given: a folder of its own, and how thorough to be."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

__all__ = ["Session"]


class Session(NamedTuple):
    """One run of the bench.

    Arguments:
        folder: temporary, empty; the state and cache folders are elsewhere.
        scale: 1.0 for the real run, less for a look.
    """

    folder: Path
    scale: float

    def rounds(self, full: int) -> int:
        """How many rounds, of ``full`` in a real run; odd, so that a median is a sample."""
        return max(3, int(full * self.scale)) | 1

    def room(self, name: str) -> Path:
        """An empty folder for one row."""
        path = self.folder / name
        path.mkdir()
        return path
