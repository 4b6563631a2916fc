"""Connections to named destinations: read what the client asks for, go on there, or refuse.

One object for all of them, to be driven by a loop that waits for its descriptor. Standard
library only.
"""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections import deque
from collections.abc import Callable, Iterable

from axonkernel.box.resolver import original
from axonkernel.box.resolver.connection import Connection, Dialing, Refused, Rules
from axonkernel.box.resolver.splice import Pipes

__all__ = ["HELLO_S", "MOST", "WAITING", "Relay"]

#: Connections at once, and those among them that have not said yet where they go.
MOST, WAITING = 8192, 1024
#: How long a client has for its hello, and how long going on may take; to an address that is
#: not the last one of its name (seconds).
HELLO_S, ONWARD_S, ATTEMPT_S = 10.0, 20.0, 2.0
#: A connection has two sockets, and a pipe each way while bytes are on their way.
_DESCRIPTORS = 6
_SPARE_DESCRIPTORS = 256
_ACCEPTED_AT_ONCE = 64
_EVENTS_AT_ONCE = 256
_LOOK_S = 1.0

#: (kind, address, port, name) of a connection that was refused. Kinds: see connection.py.
Tell = Callable[[str, str, int, str], None]


class Relay:
    """Every connection to a named destination of one box.

    Arguments:
        rules: what is checked, and where connections go on to.
        tell: is told of each one that was refused.
        listeners: where they come in.
    """

    def __init__(self, rules: Rules, tell: Tell, listeners: Iterable[socket.socket]) -> None:
        self._rules = rules
        self._tell = tell
        self._most = _room(original.raise_descriptor_limit())
        self._epoll = select.epoll()
        self._pipes = Pipes()
        self._connections: dict[int, Connection] = {}
        self._masks: dict[int, int] = {}
        self._waiting: dict[Connection, float] = {}
        self._over: list[tuple[Connection, bool]] = []
        self._listeners = {listener.fileno(): listener for listener in listeners}
        self._undialed: deque[Connection] = deque()
        for fd in self._listeners:
            self._epoll.register(fd, select.EPOLLIN)
        self._dialer = rules.through.dialer if rules.through else None
        if self._dialer:
            self._epoll.register(self._dialer.fileno(), select.EPOLLIN)

    def fileno(self) -> int:
        """Readable when there is something to do."""
        return self._epoll.fileno()

    @property
    def wait_s(self) -> float | None:
        """When to call :meth:`expire` next, at the latest; None for no need (seconds)."""
        return _LOOK_S if self._waiting else None

    @property
    def count(self) -> int:
        """Connections now."""
        return len(set(self._connections.values()))

    def serve(self) -> None:
        """Do what can be done now, without waiting."""
        for fd, events in self._epoll.poll(0, _EVENTS_AT_ONCE):
            if listener := self._listeners.get(fd):
                self._accept(listener)
            elif self._dialer and fd == self._dialer.fileno():
                self._take_dialed(self._dialer)
            elif connection := self._connections.get(fd):
                self._go_on(connection, fd, events)
        self._close_over()

    def expire(self) -> None:
        """Refuse those that let us wait for too long."""
        now_s = time.monotonic()
        for connection in [each for each, end_s in self._waiting.items() if end_s <= now_s]:
            if connection.has_more:
                self._do(connection, connection.try_next)
                if connection in self._waiting:
                    self._waiting[connection] = now_s + _patience_s(connection)
            else:
                self._refuse(connection, Refused(connection.overdue, connection.name))
        self._close_over()

    def close(self) -> None:
        """End every connection and listen no more."""
        for connection in set(self._connections.values()):
            self._end(connection, reset=True)
        self._close_over()
        for listener in self._listeners.values():
            listener.close()
        self._pipes.close()
        self._epoll.close()

    # -- one connection -----------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            try:
                client, _ = listener.accept()
            except OSError:  # none is left, or it went away again
                return
            try:
                client.setblocking(False)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                there = original.original(client)
                redirected = there != client.getsockname()[:2]
            except OSError:
                redirected = False
            if redirected:
                self._begin(client, *there)
            else:  # it means the relay itself, which would go on to itself for ever
                original.abort(client)

    def _begin(self, client: socket.socket, address: str, port: int) -> None:
        connection = Connection(client, address, port, self._rules, self._pipes, self._watch)
        if len(self._connections) >= 2 * self._most:
            original.abort(client)
            self._tell("full", address, port, "")
            return
        if len(self._waiting) >= WAITING:
            first = next(iter(self._waiting))
            self._refuse(first, Refused(first.overdue, first.name))
        self._waiting[connection] = time.monotonic() + HELLO_S
        self._go_on(connection, -1, 0)

    def _take_dialed(self, dialer: Dialing) -> None:
        """Hand what the dialer made to those who wait for it, in their order."""
        with contextlib.suppress(BlockingIOError):
            while True:
                try:
                    made = dialer.take()
                except ConnectionError:  # it has ended: everyone is refused from now on
                    self._epoll.unregister(dialer.fileno())
                    while self._undialed:
                        self._hand(self._undialed.popleft(), None)
                    return
                self._hand(self._undialed.popleft() if self._undialed else None, made)

    def _hand(self, connection: Connection | None, made: socket.socket | None) -> None:
        if connection is not None and connection.is_dialed_for:
            self._do(connection, lambda: connection.dialed(made))
        elif made is not None:  # who wanted it has gone
            made.close()

    def _go_on(self, connection: Connection, fd: int, events: int) -> None:
        self._do(connection, lambda: connection.go_on(fd, events))

    def _do(self, connection: Connection, step: Callable[[], None]) -> None:
        before = connection.overdue
        try:
            step()
        except Refused as refused:
            self._refuse(connection, refused)
        except OSError:
            self._end(connection, reset=True)
        else:
            if connection.ended:
                self._end(connection, reset=False)
            elif connection.spliced:
                self._waiting.pop(connection, None)
            elif connection.overdue != before:
                self._waiting[connection] = time.monotonic() + _patience_s(connection)
                if connection.is_dialed_for:
                    self._undialed.append(connection)

    def _watch(self, sock: socket.socket, connection: Connection, events: int) -> None:
        """Hear of ``events`` of a socket; -1 for of nothing at all."""
        fd = sock.fileno()
        known = self._masks.get(fd, -1)
        if events == known:
            return
        if events < 0:
            del self._masks[fd], self._connections[fd]
            self._epoll.unregister(fd)
            return
        (self._epoll.register if known < 0 else self._epoll.modify)(fd, events)
        self._masks[fd] = events
        self._connections[fd] = connection

    def _refuse(self, connection: Connection, refused: Refused) -> None:
        self._tell(refused.kind, connection.address, connection.port, refused.name)
        self._end(connection, reset=True)

    def _end(self, connection: Connection, *, reset: bool) -> None:
        self._waiting.pop(connection, None)
        connection.is_dialed_for = False
        connection.leave()
        self._over.append((connection, reset))

    def _close_over(self) -> None:
        """Close what ended in this turn, and only now: a descriptor that is used again would
        get what was heard of the one before."""
        for connection, reset in self._over:
            connection.close(reset=reset)
        self._over.clear()


def _patience_s(connection: Connection) -> float:
    return ATTEMPT_S if connection.has_more else ONWARD_S


def _room(descriptors: int) -> int:
    """How many connections so many descriptors are enough for."""
    return max(16, min(MOST, (descriptors - _SPARE_DESCRIPTORS) // _DESCRIPTORS))
