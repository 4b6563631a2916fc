"""A box while it runs: the wall clock, the counters, and what the supervisor orders.

Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Iterable

from axonkernel.box.channel import Channel
from axonkernel.box.clock import WallClock
from axonkernel.box.granting import grant
from axonkernel.box.model import NetPlan
from axonkernel.box.standing import Standing
from axonkernel.box.telling import EVERY_S, Telling
from axonkernel.typed import Any

__all__ = ["watch"]

#: How often the memory counters are looked at while a scope holds the box (seconds).
_COUNTERS_EVERY_S = 0.2
#: A program that ends within this time asks for no name, mostly.
_BRIEF_S = 0.01


def watch(
    standing: Standing,
    control: Channel,
    wall_s: float,
    net: NetPlan | None = None,
    orders: Iterable[dict[str, Any]] = (),
) -> None:
    """Until the program has ended, by itself or by us.

    Arguments:
        wall_s: seconds it may run; 0 for no limit.
        net: what was walled; None for nothing.
        orders: what the supervisor has ordered already.

    Raises ChannelClosed when the supervisor is gone; the box still stands then.
    """
    watching = _Watch(standing, control, WallClock(wall_s))
    # Without a link nothing gets as far as the table.
    watching.looks = net is not None and net.link != "none"
    for order in orders:
        watching.obey(order)
    watching.run()


class _Watch:
    def __init__(self, standing: Standing, control: Channel, clock: WallClock) -> None:
        self._standing = standing
        self._control = control
        self._clock = clock
        self._grace_until_s: float | None = None
        self._look_s = 0.0
        self._resolver = standing.resolver
        self._resolver_fds: tuple[int, ...] = ()
        self._prepares_s = time.monotonic() + _BRIEF_S if self._resolver else float("inf")
        self._telling = Telling(standing.refusals, control, standing.name_of)
        #: Whether the table is looked at for what was refused.
        self.looks = False

    def run(self) -> None:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        poll.register(self._standing.ended, select.POLLIN)
        keeper = self._standing.keeper
        if keeper is not None:
            poll.register(keeper, select.POLLIN)
        while True:
            self._hear_resolver(poll)
            ready = {fd for fd, _ in poll.poll(self._patience_ms())}
            if self._standing.ended in ready:
                return
            if self._control.fileno() in ready:
                self.obey(self._control.receive()[0])
            if keeper is not None and keeper.fileno() in ready and not keeper.listen():
                poll.unregister(keeper)
                self._standing.kill("keeper")
            if self._resolver is not None and not ready.isdisjoint(self._resolver_fds):
                heard = self._resolver.listen()
                self._telling.note(heard.refused, heard.asked)
            self._keep_limits()
            self._tell()
            if not ready:
                self._prepare()

    def _prepare(self) -> None:
        """Have the resolver made ready, a little at a time: there is nothing else to do."""
        if self._resolver is not None and time.monotonic() >= self._prepares_s:
            more = self._resolver.prepare()
            self._prepares_s = time.monotonic() if more else float("inf")

    def _hear_resolver(self, poll: select.poll) -> None:
        """Wait for what it waits for, or it for us: that changes as it comes and goes."""
        fds = () if self._resolver is None else self._resolver.filenos()
        if fds != self._resolver_fds:
            for fd in self._resolver_fds:
                poll.unregister(fd)
            for fd in fds:
                poll.register(fd, select.POLLIN)
            self._resolver_fds = fds

    def _tell(self) -> None:
        """Look at what was refused, now and then."""
        if self.looks and time.monotonic() >= self._look_s:
            self._telling.look()
            self._look_s = time.monotonic() + EVERY_S

    def _report(self, order: dict[str, Any]) -> None:
        """Tell all that was refused since a moment, up to now."""
        if self._resolver is not None:
            heard = self._resolver.now()
            self._telling.note(heard.refused, heard.asked)
        if self.looks:
            self._telling.look()
        refused = [
            each for each in self._standing.refusals.all() if each.last_s >= order["since_s"]
        ]
        self._control.send({"event": "net", "refused": refused, "report": order["number"]})

    def _keep_limits(self) -> None:
        standing = self._standing
        if self._clock.left_s() == 0.0:
            standing.kill("wall")
        elif self._grace_until_s is not None and time.monotonic() >= self._grace_until_s:
            standing.kill("killed")
        elif standing.group is not None and standing.group.counters().oom_kills:
            standing.kill("memory")

    def _patience_ms(self) -> float | None:
        waits = [self._clock.left_s()]
        if self._standing.group is not None:
            waits.append(_COUNTERS_EVERY_S)
        if self.looks:
            waits.append(max(0.0, self._look_s - time.monotonic()))
        if self._prepares_s < float("inf"):
            waits.append(max(0.0, self._prepares_s - time.monotonic()))
        if self._grace_until_s is not None:
            waits.append(max(0.0, self._grace_until_s - time.monotonic()))
        known = [wait for wait in waits if wait is not None]
        return min(known) * 1000 + 1 if known else None

    def obey(self, order: dict[str, Any]) -> None:
        """Do what the supervisor orders."""
        match order["op"]:
            case "kill":
                self._standing.kill("killed")
            case "signal":
                self._signal(order["number"], order.get("grace_s"))
            case "pause":
                self._clock.pause()
            case "resume":
                self._clock.resume()
            case "grant" | "refuse":
                self._settle(order)
            case "report":
                self._report(order)

    def _settle(self, order: dict[str, Any]) -> None:
        """What a person said of a destination: addresses are the table's, names the resolver's."""
        from axonkernel.policy.hosts import address_number  # few boxes hear of any

        if address_number(order["host"]) is not None:
            grant(order)
        elif self._resolver is not None:
            self._resolver.order(order)

    def _signal(self, number: int, grace_s: float | None) -> None:
        if grace_s is not None and self._grace_until_s is None:
            self._grace_until_s = time.monotonic() + grace_s
        if not self._standing.signal(number):
            return
        if number == signal.SIGCONT:
            self._signal_group(signal.SIGCONT)
        elif number == signal.SIGTSTP and not _minds(self._standing.agent, number):
            # The kernel does not stop a process group without a shell above it.
            self._signal_group(signal.SIGSTOP)

    def _signal_group(self, number: int) -> None:
        """The process group the program is in, as a shell does."""
        with contextlib.suppress(ProcessLookupError):
            group = os.getpgid(self._standing.agent)
            # It has not ended, so the number was its own.
            if self._standing.signal(0) and group != os.getpgrp():
                os.killpg(group, number)


def _minds(pid: int, number: int) -> bool:
    """Whether a process catches or ignores a signal."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="ascii") as lines:
        fields = dict(line.split(":", 1) for line in lines)
        masks = int(fields["SigCgt"], 16) | int(fields["SigIgn"], 16)
        return bool(masks >> (number - 1) & 1)
    return False
