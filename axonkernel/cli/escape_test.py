"""Try every known way out of the box, on this machine and with this policy.

Some three hundred attempts to escape, each run twice: outside the box, where it has to get
through (or it would prove nothing), and as the agent inside, where it must not. What came of
each is looked at from outside: markers, secrets, listeners and processes of this test's own,
in one temporary folder that is granted beside what the policy grants, and gone afterwards.
Nothing else of yours is touched.

  held        refused inside; outside the same got through
  unproven    refused inside, and it cannot succeed on this machine anyway
  granted     got through, as the policy says
  reported    got through, and the run names it at its end (files that it cannot prevent)
  not here    cannot be tried; what is missing is said
  ESCAPED     got through

exit codes: 0 nothing escaped; 1 something did, or ended the test; 125 no box can be made
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING

from axonkernel.cli.args import add_json, add_policy, say, say_json

if TYPE_CHECKING:
    from axonkernel.demo.table import Style
    from axonkernel.escapes.escape import Tested
    from axonkernel.escapes.judge import Row
    from axonkernel.policy.model import Policy

__all__ = ["add_arguments", "run"]

#: attempt, wall, outcome and detail; the last takes what is left of the line.
_COLUMNS = (47, 22, 10)
_COLOURS = {
    "held": "green", "unproven": "dim", "granted": "yellow", "reported": "yellow",
    "not here": "dim", "ESCAPED": "red", "NO ANSWER": "red",
}  # fmt: skip


#: Neither a success of the walls nor of the attempt.
_MARKS = {"granted": "~", "reported": "~", "not here": " "}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``axonkernel escape-test``."""
    add_policy(parser)
    parser.add_argument("--all", action="store_true", help="show the meaning of every attempt")
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Try them all; returns the exit code."""
    from axonkernel.demo.table import Style
    from axonkernel.escapes.escape import escape_test

    # What has been built is taken down on the way out of the exception this raises.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    start = time.monotonic()
    layers, source = _policy(args)
    tested = escape_test(layers, source=source, progress=_progress)
    _progress("")
    if args.json:
        say_json({"source": source, **tested.as_data()})
    else:
        style = Style(sys.stdout)
        say(_head(tested, source))
        for line in _table(tested, style, args.all):
            print(line)
        print(_summary(tested, style, time.monotonic() - start))
    return 0 if tested.ok else 1


def _policy(args: argparse.Namespace) -> tuple[list[Policy], str]:
    """The policies that hold together, and the file; a closed one where there is none."""
    from axonkernel.config import load
    from axonkernel.policy.parse import parse

    loaded = load(args.policy, require_policy=args.require_policy)
    if loaded.source:
        return [policy for _, policy in loaded.layers], loaded.source
    home = os.path.expanduser("~")
    closed = parse({"default": "deny"}, base=os.getcwd(), home=home, source="no policy")
    return [*(policy for name, policy in loaded.layers if name == "profile"), closed], ""


def _progress(text: str) -> None:
    """One line on a terminal's stderr, in place of the one before."""
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r\x1b[2K{text[:width]}")
        sys.stderr.flush()


def _head(tested: Tested, source: str) -> Iterator[str]:
    from axonkernel.box.model import posture_line

    yield f"policy: {source or 'none found: a closed box'}"
    yield f"posture: {posture_line(tested.posture)}"
    yield from (f"  {row.field}: {row.note}" for row in tested.posture if row.note)
    yield ""


def _table(tested: Tested, style: Style, meanings: bool) -> Iterator[str]:
    for group, rows in groupby(tested.rows, key=lambda row: row.group):
        yield _group(group, list(rows), style)
        yield from _rows([row for row in tested.rows if row.group == group], style, meanings)


def _group(name: str, rows: list[Row], style: Style) -> str:
    counts = Counter(row.outcome for row in rows)
    through = counts["ESCAPED"] + counts["NO ANSWER"]
    some = [f"{counts[name]} {name}" for name in ("granted", "reported") if counts[name]]
    told = ", ".join([f"{len(rows) - counts['not here']} tried", *some])
    told += f", {through} ESCAPED" if through else ", none escaped"
    rule = style.rule * max(1, 98 - len(name) - len(told))
    colour = "red" if through else "green"
    return f"{style.paint('bold', name)} {style.paint('dim', rule)} {style.paint(colour, told)}"


def _rows(rows: Iterable[Row], style: Style, meanings: bool) -> Iterator[str]:
    for row in rows:
        good = row.outcome not in ("ESCAPED", "NO ANSWER")
        colour = _COLOURS[row.outcome]
        mark = _MARKS.get(row.outcome) or (style.good if good else style.bad)
        cells = (row.attempt, row.wall, row.outcome)
        line = "".join(
            f"{cell:{width}.{width}}" for cell, width in zip(cells, _COLUMNS, strict=True)
        )
        yield f"{style.paint(colour, mark)} {style.paint(colour, f'{line}{row.detail}'.rstrip())}"
        if meanings or not good:
            yield style.paint("dim", f"    {row.id}: {row.meaning}")


def _summary(tested: Tested, style: Style, took_s: float) -> str:
    counts = tested.counts
    order = [name for name in _COLOURS if counts.get(name)]
    told = ", ".join(f"{counts[name]} {name}" for name in order)
    verdict = "nothing escaped" if tested.ok else "SOMETHING ESCAPED"
    line = f"{len(tested.rows)} attempts in {took_s:.0f} s: {told}. {verdict}."
    return "\n" + style.paint("green" if tested.ok else "red", line)
