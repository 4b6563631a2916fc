"""The warden's hold on the resolver of its box.

It is started by the first question: most boxes ask for no name. When it dies, the next question
starts another, a few times; what it had put into the sets stays there for its time, and nothing
is added while there is none. Standard library only; the resolver itself is imported when nobody
waits for anything.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
from importlib import import_module

from axonkernel.box.channel import Channel, ChannelClosed, pair
from axonkernel.box.linux import die_with_parent
from axonkernel.box.model import NetPlan, Refusal
from axonkernel.box.resolver.doors import Doors, Lines, lines, open_doors
from axonkernel.typed import TYPE_CHECKING, Any, NamedTuple, NoReturn

if TYPE_CHECKING:
    from axonkernel.box.resolver.dialer import Dialer

__all__ = ["Heard", "Resolver"]

#: How often it is started again; then names are no longer answered.
_STARTS = 16
#: Addresses whose names are known.
_MOST_NAMED = 2048
_ENDS_WITHIN_S = 1.0
#: What a resolver imports, in pieces; what is there already costs nothing.
_PARTS = (
    "ipaddress",
    "axonkernel.policy.hosts",
    *(f"axonkernel.box.resolver.{name}" for name in ("wire", "admitting", "upstream", "serving")),
)


class Heard(NamedTuple):
    """What a resolver said.

    Arguments:
        asked: names that wait for a person.
    """

    refused: tuple[Refusal, ...] = ()
    asked: tuple[str, ...] = ()


class Resolver:
    """Make it before the box's network is entered, and open its doors there.

    Arguments:
        net: the network of the box.
    """

    def __init__(self, net: NetPlan) -> None:
        self._net = net
        self._lines = lines() if net.resolves else Lines()
        self._doors: Doors | None = None
        self._dialer = _dialer(net.proxy) if net.proxy and net.link != "none" else None
        self._channel: Channel | None = None
        self._starts = 0
        self._pid = 0
        self._granted: list[dict[str, Any]] = []
        self._named: dict[str, str] = {}
        self._parts = iter(_PARTS)

    def open(self) -> None:
        """Listen where the box asks. Raises OSError."""
        self._doors = open_doors(relayed=self._net.relayed)

    def prepare(self) -> bool:
        """Import a part of what a resolver needs, so that the first question waits for a fork
        alone; some milliseconds at a time. False when nothing is left."""
        name = next(self._parts, "")
        if name:
            with contextlib.suppress(ImportError):  # then a resolver cannot either, and ends
                import_module(name)
        return bool(name)

    def filenos(self) -> tuple[int, ...]:
        """What to wait for: the resolver's words, or the box's questions where there is none."""
        if self._channel is not None:
            return (self._channel.fileno(),)
        return () if self._doors is None else tuple(door.fileno() for door in self._doors.all)

    def listen(self) -> Heard:
        """When one of :meth:`filenos` is readable: what the resolver says, if that is what it
        is."""
        if self._channel is None:
            self._start()
            return Heard()
        try:
            message, _ = self._channel.receive()
        except ChannelClosed:
            self._ended()
            return Heard()
        return self._heard(message)

    def name_of(self, address: str) -> str:
        """The name that was answered with an address last; "" for none."""
        return self._named.get(address, "")

    def order(self, order: dict[str, Any]) -> None:
        """Carry out ``grant`` or ``refuse`` about a name: a person said so."""
        if order["op"] == "grant":
            self._granted.append(order)
        self._tell(order)

    def now(self) -> Heard:
        """What it has to say up to now; it would have said so soon."""
        refused: list[Refusal] = []
        asked: list[str] = []
        try:
            if self._channel is not None:
                self._tell({"op": "tell"})
                said = False
                while not said and self._says_something():
                    message, _ = self._channel.receive()
                    heard = self._heard(message)
                    refused += heard.refused
                    asked += heard.asked
                    said = message["now"]
        except ChannelClosed:
            self._ended()
        return Heard(tuple(refused), tuple(asked))

    def end(self) -> tuple[Refusal, ...]:
        """End it; what was refused and not told yet."""
        refused: list[Refusal] = []
        if self._channel is not None:
            self._tell({"op": "end"})
            try:
                while self._says_something():
                    refused += self._heard(self._channel.receive()[0]).refused
            except ChannelClosed:
                pass
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)
            self._ended()
        if self._dialer is not None:
            self._dialer.close()
        return tuple(refused)

    def _says_something(self) -> bool:
        assert self._channel is not None
        poll = select.poll()
        poll.register(self._channel, select.POLLIN)
        return bool(poll.poll(_ENDS_WITHIN_S * 1000))

    def _heard(self, message: dict[str, Any]) -> Heard:
        for address, name in message["named"].items():
            self._named.pop(address, None)
            self._named[address] = name
        while len(self._named) > _MOST_NAMED:
            del self._named[next(iter(self._named))]
        refused = tuple(Refusal(*each) for each in message["refused"])
        return Heard(refused, tuple(message["asked"]))

    def _tell(self, order: dict[str, Any]) -> None:
        if self._channel is not None:
            with contextlib.suppress(ChannelClosed):
                self._channel.send(order)

    def _start(self) -> None:
        assert self._doors is not None
        self._starts += 1
        self._channel, theirs = pair()
        self._pid = os.fork()
        if self._pid == 0:
            self._become(theirs)
        theirs.close()
        for order in self._granted:
            self._tell(order)

    def _become(self, channel: Channel) -> NoReturn:
        try:
            assert self._doors is not None
            die_with_parent(signal.SIGKILL)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            sockets = [*self._doors.all, *self._lines.datagrams, *self._lines.streams]
            kept = {channel.fileno(), *(each.fileno() for each in sockets)}
            _close_all_but(kept if self._dialer is None else {*kept, self._dialer.fileno()})
            from axonkernel.box.resolver.serving import serve

            serve(self._net, channel, self._doors, self._lines, self._dialer)
        finally:
            os._exit(1)

    def _ended(self) -> None:
        assert self._channel is not None
        self._channel.close()
        self._channel = None
        with contextlib.suppress(ChildProcessError):  # reaped in passing
            os.waitpid(self._pid, 0)
        if self._starts == _STARTS and self._doors is not None:
            for door in self._doors.all:
                door.close()  # from now on the kernel refuses what is asked
            self._doors = None


def _dialer(url: str) -> Dialer:
    from axonkernel.box.resolver import dialer
    from axonkernel.box.resolver.proxy import parse_proxy

    proxy = parse_proxy(url)
    return dialer.start(proxy.host, proxy.port)


def _close_all_but(kept: set[int]) -> None:
    below = 2
    for fd in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(below + 1, fd)
        below = fd
