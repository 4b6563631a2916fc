"""A box in the foreground: its program has this process's streams, and this waits for its end.

Standard library only.
"""

from __future__ import annotations

from axonkernel.box import launch
from axonkernel.box.channel import Channel
from axonkernel.box.model import BoxPlan, BoxResult, Command
from axonkernel.box.signals import forwarded
from axonkernel.box.streams import Streams

__all__ = ["run"]


def run(warden: Channel, plan: BoxPlan, argv: tuple[str, ...]) -> tuple[BoxResult, str]:
    """Run a command in a box to its end; signals are passed on to it.

    Arguments:
        warden: forked early, while this process was small (launch.fork_warden).

    Returns how it ended, and what of its output could not be written ("" for nothing).
    """
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
    return result, streams.fault
