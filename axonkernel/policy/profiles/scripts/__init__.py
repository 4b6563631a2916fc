"""Program texts inside arguments, read just far enough to see what they run and open.

What cannot be read is a hazard: a text filter that is not understood may be anything.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Script"]


class Script(NamedTuple):
    """What a program text does beside its main job.

    Arguments:
        hazards: (name, why) of what runs other programs or cannot be read.
        files: (name, path, write) of files it opens; a path is None when it is computed.
    """

    hazards: tuple[tuple[str, str], ...] = ()
    files: tuple[tuple[str, str | None, bool], ...] = ()
