"""A box in the foreground: its program has this process's streams, and this waits for its end.

Standard library only.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

from axonkernel.box import launch
from axonkernel.box.channel import Channel
from axonkernel.box.model import BoxPlan, BoxResult, Command
from axonkernel.box.signals import forwarded
from axonkernel.box.streams import Streams
from axonkernel.typed import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from axonkernel.box.pty import Terminal

__all__ = ["Brokered", "Heard", "run"]


class Brokered(Protocol):
    """Answers the calls of programs that run only outside the box (broker/opening.py)."""

    lends: int

    def plan(self, plan: BoxPlan) -> BoxPlan:
        """``plan`` with the place where it is called."""

    def begun(self, box: launch.BoxProcess, terminal: Terminal | None) -> None:
        """The box is there: answer it from now on."""

    def close(self) -> None:
        """The box has ended."""


#: Told of the box's events, with the terminal it has, if any.
Heard = Callable[["Terminal | None", launch.BoxProcess, dict[str, Any]], None]


def run(
    warden: Channel,
    plan: BoxPlan,
    argv: tuple[str, ...],
    heard: Heard | None = None,
    brokered: Brokered | None = None,
    before: Callable[[], None] | None = None,
) -> tuple[BoxResult, str]:
    """Run a command in a box to its end; signals are passed on to it.

    Arguments:
        warden: forked early, while this process was small (launch.fork_warden).
        heard: called in this thread, see :class:`axonkernel.box.launch.BoxProcess`.
        brokered: needed where the plan asks (box/brokered.py).
        before: called while the box is made; nothing runs before it has returned.

    Returns how it ended, and what of its output could not be written ("" for nothing).
    """
    streams = Streams(run_as=plan.run_as and plan.run_as[0], controlling=plan.traced)
    terminal = streams.terminal
    has_terminal = terminal is not None and plan.traced
    lends = -1 if brokered is None else brokered.lends
    command = Command(
        argv, *streams.given, terminal=has_terminal, caller=streams.caller, lends=lends
    )
    plan = plan if brokered is None else brokered.plan(plan)
    signals = ExitStack()

    def prepare(box: launch.BoxProcess) -> None:
        # Before the program can be seen to run: whoever sees that may send the next signal.
        signals.enter_context(forwarded(box, terminal))
        if before is not None:
            before()

    try:
        with signals:
            listens = heard and partial(heard, terminal)
            box = launch.start(warden, plan, command, heard=listens, before=prepare)
            if brokered is not None:
                brokered.begun(box, terminal)
            gc.enable()  # off while it was launched (cli.start)
            streams.start()
            result = box.wait()
    finally:
        if brokered is not None:
            brokered.close()
    streams.finish()
    assert result is not None
    return result, streams.fault
