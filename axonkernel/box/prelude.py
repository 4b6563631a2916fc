"""What a warden does first: it learns of its box and starts what becomes bwrap.

A file of its own because each ``axonkernel exec`` waits for its imports: the rest of the warden
(warden.py) is imported while bwrap makes its namespaces on another processor. Standard library
only.
"""

from __future__ import annotations

import os
import select
import sys
from functools import partial
from importlib import import_module

from axonkernel.box import gate
from axonkernel.box.channel import Channel, ChannelClosed
from axonkernel.box.milestones import reached
from axonkernel.box.model import BoxPlan, Command, decode_plan
from axonkernel.box.spawn import spawn
from axonkernel.box.standing import Standing, park
from axonkernel.box.unheld import not_traced
from axonkernel.errors import BoxError
from axonkernel.typed import NamedTuple, NoReturn

__all__ = ["get_ready", "serve"]


class _Given(NamedTuple):
    """The descriptors that came with a job: the command's own, and model.Command's others."""

    own: tuple[int, ...]
    caller: int
    lends: int
    lent: tuple[int, ...]


def serve(control: Channel) -> NoReturn:
    """Run the one box the first message asks for, then exit. Never returns."""
    try:
        get_ready(control)
        job, descriptors = control.receive()
        reached("asked")
        plan, command = decode_plan(job["plan"]), Command(*job["command"])
        given = _sorted(command, descriptors)
        standing = Standing()
        if given.caller >= 0:
            standing.keep_terminal(given.caller)
        outside = gate.namespaces()
        fault: Exception | None = None
        try:
            _begin(standing, plan, given, scope=job["scope"])
            seize = partial(gate.seize, execs=False) if plan.traced else not_traced
            standing.spawned(spawn(job["bwrap"], plan, command, given.own, seize, given.lent))
            reached("spawned")
        except (BoxError, gate.GateError, OSError) as error:
            fault = error
        from axonkernel.box.warden import Warden

        warden = Warden(control, plan, command, standing, held=job["held"])
        warden.run(outside, fault, scope=job["scope"])
    except ChannelClosed:
        os._exit(1)
    os._exit(0)


def get_ready(orders: Channel) -> None:
    """Import the rest, if there is time: nobody has asked for a box yet."""
    if "nftables" not in sys.modules and not _is_readable(orders):
        import_module("axonkernel.box.warden")
        # Most boxes have a network of their own.
        import_module("axonkernel.box.entering").ready_tables()


def _is_readable(channel: Channel) -> bool:
    poll = select.poll()
    poll.register(channel, select.POLLIN)
    return bool(poll.poll(0))


def _sorted(command: Command, descriptors: tuple[int, ...]) -> _Given:
    """In the order in which launch.py sends them."""
    rest = list(descriptors)
    lent = [rest.pop() for _ in command.lent]
    lends = rest.pop() if command.lends >= 0 else -1
    caller = rest.pop() if command.caller >= 0 else -1
    return _Given(tuple(rest), caller, lends, tuple(reversed(lent)))


def _begin(standing: Standing, plan: BoxPlan, given: _Given, *, scope: bool) -> None:
    """Start the processes that must be there before bwrap; few boxes need any."""
    if plan.watch is not None:
        from axonkernel.box import keeper

        standing.keeper = keeper.start(plan)
    if given.lends >= 0:
        from axonkernel.box import lending

        standing.lender = lending.start(given.lends)
    if scope:
        standing.parked = park()
    if plan.net is not None and plan.net.link in ("pasta", "veth"):
        from axonkernel.box.link import Link

        standing.link = Link(plan.net, foreign=plan.run_as is not None)
