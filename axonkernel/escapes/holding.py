"""A supervisor of its own process, as ``axonkernel exec`` is one, for a plan that is given.

Standard input and output are the command's. The box dies with it.
"""

from __future__ import annotations

import json
import os
import sys

from axonkernel.box import launch
from axonkernel.box.model import BoxPlan, BoxResult, Command, decode_plan
from axonkernel.box.signals import forwarded
from axonkernel.box.streams import Streams

__all__ = ["main", "words"]


def words(order: str) -> tuple[str, ...]:
    """The command line that holds the box of the file ``order``."""
    code = "from axonkernel.escapes.holding import main; main()"
    return (sys.executable, "-c", code, order)


def main() -> None:
    """Read the order (a file with plan and argv), hold the box, and end as it ended.

    The result is left beside the order, in a file with the ending ``.result``.
    """
    order = sys.argv[1]
    with open(order) as file:
        plan, argv = json.load(file)
    result = _hold(decode_plan(plan), tuple(argv))
    with open(f"{order}.result", "w") as file:
        json.dump(result._asdict(), file)
    os._exit(result.exit_code)


def _hold(plan: BoxPlan, argv: tuple[str, ...]) -> BoxResult:
    # Forked from a process this small, as the command line does.
    warden = launch.fork_warden()
    streams = Streams(run_as=plan.run_as and plan.run_as[0], controlling=plan.traced)
    terminal = streams.terminal
    has_terminal = terminal is not None and plan.traced
    command = Command(argv, *streams.given, terminal=has_terminal, caller=streams.caller)
    box = launch.start(warden, plan, command)
    with forwarded(box, terminal):
        streams.start()
        result = box.wait()
    streams.finish()
    assert result is not None
    return result
