"""The table of the demonstration, on 100 columns; colours only where somebody looks."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TextIO

from axonkernel.demo.judge import Row

__all__ = ["Style", "posture_lines", "row_lines"]

WIDTH = 100
#: attempt, layer, outcome, expected; four more columns are in front of them.
_COLUMNS = (38, 20, 24, 14)
_HEADS = ("attempt", "layer that answered", "outcome", "expected")
_COLOURS = {"bold": "1", "dim": "2", "green": "32", "red": "1;31", "yellow": "33"}
_STATES = {"enforced": "green", "mediator only": "yellow", "unenforced": "red"}


class Style:
    """How a stream is written to.

    Arguments:
        stream: where the lines will go.
    """

    def __init__(self, stream: TextIO) -> None:
        dull = "NO_COLOR" in os.environ or os.environ.get("TERM", "dumb") == "dumb"
        self._colours = stream.isatty() and not dull
        plain = "utf" not in (stream.encoding or "").lower()
        self.good, self.bad, self.absent, self.rule = "+x--" if plain else "✓✗·─"

    def paint(self, colour: str, text: str) -> str:
        """``text`` in a colour, or as it is."""
        if not self._colours or not text:
            return text
        return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m"


def posture_lines(rows: Iterable[tuple[str, str, str, str]], style: Style) -> Iterator[str]:
    """What is true of each field, with what the reader should know."""
    yield style.paint("bold", "Posture of the agent's box")
    for field, state, by, note in rows:
        shown = style.paint(_STATES.get(state, "dim"), f"{state:15}")
        first, *more = textwrap.wrap(by or note, WIDTH - 34) or [""]
        yield f"  {field:15} {shown} {first}".rstrip()
        if by and note:
            more += textwrap.wrap(note, WIDTH - 34)
        yield from (style.paint("dim", f"{'':34}{line}") for line in more)


def row_lines(rows: Iterable[Row], states: Mapping[str, str], style: Style) -> Iterator[str]:
    """The attempts, grouped by wall."""
    yield style.paint("bold", f"    {_cells(_HEADS)}".rstrip())
    for wall, group in groupby(rows, key=lambda row: row.wall):
        state = states[wall]
        colour = {"held": "green", "held in part": "yellow", "not here": "yellow"}.get(state, "red")
        line = style.rule * (WIDTH - len(wall) - len(state) - 2)
        rule = style.paint("dim", line)
        yield f"{style.paint('bold', wall)} {rule} {style.paint(colour, state)}"
        for row in group:
            yield from _row(row, style)


def _row(row: Row, style: Style) -> Iterator[str]:
    colour = "green" if row.good else "red"
    if not row.here:
        first, *more = textwrap.wrap(row.outcome, WIDTH - 4 - _COLUMNS[0])
        mark = style.paint("yellow", style.absent)
        yield f"  {mark} {row.attempt:{_COLUMNS[0]}}{style.paint('yellow', first)}"
        yield from (f"{'':{4 + _COLUMNS[0]}}{style.paint('yellow', line)}" for line in more)
        return
    mark = style.paint(colour, style.good if row.good else style.bad)
    cells = (row.attempt, row.layer, row.outcome, row.expected)
    wrapped = [
        textwrap.wrap(cell, width - 1) or [""] for cell, width in zip(cells, _COLUMNS, strict=True)
    ]
    for number in range(max(map(len, wrapped))):
        line = _cells([cell[number] if number < len(cell) else "" for cell in wrapped])
        yield f"  {mark if number == 0 else ' '} {line}".rstrip()


def _cells(cells: Iterable[str]) -> str:
    return "".join(f"{cell:{width}}" for cell, width in zip(cells, _COLUMNS, strict=True))
