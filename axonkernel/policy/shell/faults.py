"""Why a line is refused before any rule is asked."""

from __future__ import annotations

__all__ = ["LineFault", "TooComplex", "Unparsable"]


class LineFault(ValueError):
    """A line with something in it that is not analysed, so that nobody can say what runs."""


class Unparsable(LineFault):
    """A line that bash would not accept, or that two readers understand differently."""

    def __init__(self, why: str) -> None:
        super().__init__(f"cannot be parsed: {why}")


class TooComplex(LineFault):
    """A line beyond the size that is analysed."""
