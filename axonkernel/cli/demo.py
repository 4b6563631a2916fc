"""Box an example agent and show what it can and cannot do.

A coding agent in a temporary project tries some thirty things, allowed and hostile: through
the kernel, which is asked (the mediator), and below it, by system calls, sockets and programs
started directly, which only the walls can stop. What came of each is looked at from outside
the box. A wall that this machine lacks is a row "not here", with the way to get it; what only
the mediator holds is shown to get through below it. Nothing is left behind.

exit codes: 0 every row is as expected, and files, network, environment, programs and system
calls were held, at least in part; 1 otherwise
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import time
from collections.abc import Iterator

from axonkernel.cli.args import add_json, say_json
from axonkernel.demo.show import Shown, show
from axonkernel.demo.table import Style, posture_lines, row_lines

__all__ = ["add_arguments", "run"]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of ``axonkernel demo``."""
    add_json(parser)


def run(args: argparse.Namespace) -> int:
    """Show it; returns the exit code."""
    # What has been built is taken down on the way out of the exception this raises.
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    start = time.monotonic()
    shown = show(_progress)
    _progress("")
    if args.json:
        say_json(shown.as_data())
    else:
        for line in _lines(shown, time.monotonic() - start, Style(sys.stdout)):
            print(line)
    return 0 if shown.ok else 1


def _progress(text: str) -> None:
    """One line on a terminal's stderr, in place of the one before."""
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write(f"\r\x1b[2K{text[:width]}")
        sys.stderr.flush()


def _lines(shown: Shown, took_s: float, style: Style) -> Iterator[str]:
    yield from posture_lines(shown.posture, style)
    yield ""
    yield from row_lines(shown.rows, shown.walls, style)
    yield ""
    if shown.refused:
        yield f"Packets the box refused: {', '.join(shown.refused)}"
    state = "intact" if shown.audit_intact else style.paint("red", "DAMAGED")
    yield f"Audit log: {state}. Took {took_s:.1f} s. Nothing of it is left on this machine."
    if not shown.ok and shown.complaint:
        yield from ("", style.paint("bold", "What the run said"), shown.complaint.rstrip())
    colour = "green" if shown.ok else "red"
    yield style.paint(colour, f"{shown.held} of {len(shown.walls)} walls")
