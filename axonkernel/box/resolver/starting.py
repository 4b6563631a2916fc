"""The warden's hold on the resolver of its box.

It is started by the first question: most boxes ask for no name. When it dies, the next question
starts another, a few times; what it had put into the sets stays there for its time, and nothing
is added while there is none. Standard library only; the resolver itself is imported by it alone.
"""

from __future__ import annotations

import contextlib
import os
import signal
from typing import NoReturn

from axonkernel.box.channel import Channel, ChannelClosed, pair
from axonkernel.box.linux import die_with_parent
from axonkernel.box.model import NetPlan, Refusal
from axonkernel.box.resolver.doors import Doors, Lines, lines, open_doors

__all__ = ["Resolver"]

#: How often it is started again; then names are no longer answered.
_STARTS = 16


class Resolver:
    """Make it before the box's network is entered, and open its doors there.

    Arguments:
        net: the network of the box.
    """

    def __init__(self, net: NetPlan) -> None:
        self._net = net
        self._lines = lines() if net.resolves else Lines()
        self._doors: Doors | None = None
        self._channel: Channel | None = None
        self._starts = 0
        self._pid = 0
        self._granted: list[dict[str, object]] = []

    def open(self) -> None:
        """Listen where the box asks. Raises OSError."""
        self._doors = open_doors()

    def filenos(self) -> tuple[int, ...]:
        """What to wait for: the resolver's words, or the box's questions where there is none."""
        if self._channel is not None:
            return (self._channel.fileno(),)
        return () if self._doors is None else tuple(door.fileno() for door in self._doors)

    def listen(self) -> tuple[Refusal, ...]:
        """When one of :meth:`filenos` is readable: what was refused, if that is what it is."""
        if self._channel is None:
            self._start()
            return ()
        try:
            message, _ = self._channel.receive()
        except ChannelClosed:
            self._end()
            return ()
        return tuple(Refusal(*each) for each in message["refused"])

    def grant(self, order: dict[str, object]) -> None:
        """Have a name answered for the rest of the run: a person said so."""
        self._granted.append(order)
        if self._channel is not None:
            with contextlib.suppress(ChannelClosed):
                self._channel.send(order)

    def _start(self) -> None:
        assert self._doors is not None
        if self._starts == _STARTS:
            for door in self._doors:
                door.close()  # from now on the kernel refuses what is asked
            self._doors = None
            return
        self._starts += 1
        self._channel, theirs = pair()
        self._pid = os.fork()
        if self._pid == 0:
            self._become(theirs)
        theirs.close()
        for order in self._granted:
            self.grant(order)

    def _become(self, channel: Channel) -> NoReturn:
        try:
            assert self._doors is not None
            die_with_parent(signal.SIGKILL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            sockets = (*self._doors, *self._lines.datagrams, *self._lines.streams)
            _close_all_but({channel.fileno(), *(each.fileno() for each in sockets)})
            from axonkernel.box.resolver.serving import serve

            serve(self._net, channel, self._doors, self._lines)
        finally:
            os._exit(1)

    def _end(self) -> None:
        assert self._channel is not None
        self._channel.close()
        self._channel = None
        with contextlib.suppress(ChildProcessError):  # reaped in passing
            os.waitpid(self._pid, 0)


def _close_all_but(kept: set[int]) -> None:
    below = 2
    for fd in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(below + 1, fd)
        below = fd
