"""A row of the cost table, and how the table is shown and kept."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["Row", "heading", "keep", "line"]

_WIDTHS = (52, 10, 10, 9, 7)


class Row(NamedTuple):
    """One line of the table.

    Arguments:
        what: what was measured, against what.
        value: the figure, in ``unit``; None when this machine cannot say.
        unit: ``x`` for a ratio of medians, else ``us``, ``ms`` or ``MiB``.
        budget: what it may be at most; None for a figure that only stands beside others.
        at_least: the budget is a floor, not a ceiling.
        n: samples of each side.
        note: what the reader should know.
        medians: seconds, by what was timed (bytes for memory).
    """

    what: str
    value: float | None = None
    unit: str = "x"
    budget: float | None = None
    at_least: bool = False
    n: int = 0
    note: str = ""
    medians: Mapping[str, float] = {}

    @property
    def verdict(self) -> str:
        """``met`` or ``over`` its budget, ``not here``, or ``-`` without a budget."""
        if self.value is None:
            return "not here"
        if self.budget is None:
            return "-"
        met = self.value >= self.budget if self.at_least else self.value <= self.budget
        return "met" if met else "over"


def heading() -> str:
    """The table's first two lines."""
    names = ("what", "measured", "budget", "", "n")
    return _columns(names) + "\n" + _columns(["-" * width for width in _WIDTHS])


def line(row: Row) -> str:
    """One row as text; its note goes below it."""
    sign = ">=" if row.at_least else "<="
    budget = "" if row.budget is None else f"{sign} {_figure(row.budget, row.unit)}"
    value = "" if row.value is None else _figure(row.value, row.unit)
    what = textwrap.wrap(row.what, _WIDTHS[0]) or [""]
    first = _columns((what[0], value, budget, row.verdict, str(row.n or "")))
    rest = [f"{more}" for more in what[1:]]
    notes = textwrap.wrap(row.note, 92, initial_indent="    ", subsequent_indent="    ")
    return "\n".join([first, *rest, *notes])


def keep(rows: Iterable[Row], facts: Mapping[str, Any], path: Path) -> None:
    """Write the rows and the facts of the run as JSON."""
    data = {
        "run": dict(facts),
        "rows": [{**row._asdict(), "verdict": row.verdict} for row in rows],
    }
    path.write_text(json.dumps(data, indent=2) + "\n", encoding="utf-8")


def _columns(cells: Iterable[str]) -> str:
    padded = (
        cell.ljust(width) if column == 0 or column == 3 else cell.rjust(width)
        for column, (cell, width) in enumerate(zip(cells, _WIDTHS, strict=True))
    )
    return "  ".join(padded).rstrip()


def _figure(value: float, unit: str) -> str:
    digits = 0 if value == 0 else max(0, 2 - math.floor(math.log10(abs(value))))
    text = f"{value:.{min(digits, 3)}f}"
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return f"{text}x" if unit == "x" else f"{text} {unit}"
