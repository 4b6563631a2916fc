"""Questions to the resolvers of the host, by sockets that stayed on the host's network.

Standard library only.
"""

from __future__ import annotations

import _socket
import contextlib
import ctypes
import os
import select
import struct
import time
from collections import deque
from collections.abc import Callable

from axonkernel.box.resolver import wire
from axonkernel.box.resolver.doors import Lines
from axonkernel.box.resolver.hostconf import HostConf, Settings
from axonkernel.box.resolver.loop import Loop, Timer
from axonkernel.box.resolver.wire import Answer

__all__ = ["MOST_WAITING", "Upstream"]

#: Questions that wait for a line or for an answer; more are not asked.
MOST_WAITING = 8192
#: No longer than the box's programs wait: its /etc/resolv.conf gives each question 5 s.
_WITHIN_S = 4.5
_PORT = 53
_MOST_BYTES = 65_535
#: AF_UNSPEC: the socket is no longer connected, and takes another port when it is again.
_NOBODY = bytes(16)
_USELESS = (wire.FORMERR, wire.SERVFAIL, wire.NOTIMP, wire.REFUSED)

_DATAGRAM, _STREAM = _socket.SOCK_DGRAM, _socket.SOCK_STREAM
_libc = ctypes.CDLL(None, use_errno=True)

#: Takes an answer, or None where there is none.
Done = Callable[[Answer | None], None]


class Upstream:
    """Asks each question once at a time, one server after the other.

    Arguments:
        lines: each is for one question at a time, and every question goes out by another port:
            who does not see it cannot answer it.
        conf: whom to ask.
    """

    def __init__(self, loop: Loop, lines: Lines, conf: HostConf, port: int = _PORT) -> None:
        self._loop = loop
        self._conf = conf
        self._port = port
        self._free: dict[tuple[int, int], list[_socket.socket]] = {}
        for line in (*lines.datagrams, *lines.streams):
            self._free.setdefault((line.type, line.family), []).append(line)
        self._waiting: dict[tuple[int, int], deque[_Query]] = {key: deque() for key in self._free}
        self._queries: dict[tuple[str, int], _Query] = {}

    @property
    def settings(self) -> Settings:
        """What the host says just now."""
        return self._conf.now()

    def ask(self, name: str, kind: int, done: Done) -> None:
        """Ask about an ordinary name; ``done`` is called once, possibly at once."""
        if query := self._queries.get((name, kind)):
            query.done.append(done)
        elif len(self._queries) >= MOST_WAITING:
            done(None)
        else:
            query = self._queries[name, kind] = _Query(name, kind, self._conf.now(), done)
            self._next(query)

    def _next(self, query: _Query) -> None:
        """Ask the next server; give up when there is none, or no time."""
        while query.turns and not query.overdue:
            query.server = query.turns.popleft()
            if self._begin(query, _DATAGRAM):
                return
        self._finish(query, query.said)

    def _finish(self, query: _Query, answer: Answer | None) -> None:
        del self._queries[query.name, query.kind]
        for done in query.done:
            done(answer)

    # -- lines ------------------------------------------------------------------------------

    def _begin(self, query: _Query, how: int) -> bool:
        """Ask by a line of a kind, now or when one is free; False where the host has none."""
        key = (how, _socket.AF_INET6 if ":" in query.server else _socket.AF_INET)
        if key not in self._free:
            return False
        if self._free[key]:
            self._use(query, self._free[key].pop())
        else:
            self._waiting[key].append(query)
        return True

    def _use(self, query: _Query, line: _socket.socket) -> None:
        query.line = line
        query.timer = self._loop.after(query.patience_s, lambda: self._failed(query))
        query.id = int.from_bytes(os.urandom(2))
        data = wire.ask(query.id, query.name, query.kind)
        try:
            if line.type == _STREAM:
                query.data = bytearray(struct.pack("!H", len(data)) + data)
                with contextlib.suppress(BlockingIOError):
                    line.connect((query.server, self._port))
                self._loop.add(line.fileno(), lambda: self._write(query), select.EPOLLOUT)
            else:
                line.connect((query.server, self._port))
                self._loop.add(line.fileno(), lambda: self._receive(query))
                line.send(data)
        except OSError:
            self._failed(query)

    def _release(self, query: _Query) -> None:
        line = query.line
        assert line and query.timer
        query.line = None
        query.timer.cancel()
        self._loop.remove(line.fileno())
        _libc.connect(line.fileno(), _NOBODY, len(_NOBODY))
        key = (line.type, line.family)
        self._free[key].append(line)
        if self._waiting[key]:
            self._loop.after(0.0, lambda: self._pump(key))

    def _pump(self, key: tuple[int, int]) -> None:
        """Have those asked that wait for a line."""
        while self._free[key] and self._waiting[key]:
            query = self._waiting[key].popleft()
            if query.overdue:
                self._finish(query, query.said)
            else:
                self._use(query, self._free[key].pop())

    # -- one question on its line -----------------------------------------------------------

    def _failed(self, query: _Query) -> None:
        self._release(query)
        self._next(query)

    def _receive(self, query: _Query) -> None:
        assert query.line
        try:
            data = query.line.recv(_MOST_BYTES)
        except BlockingIOError:
            return
        except OSError:  # such as a port where nobody listens
            self._failed(query)
            return
        self._heard(query, data)

    def _write(self, query: _Query) -> None:
        assert query.line
        self._loop.remove(query.line.fileno())
        try:
            query.line.send(query.data)  # a new connection takes so few bytes at once
        except OSError:
            self._failed(query)
            return
        query.data.clear()
        self._loop.add(query.line.fileno(), lambda: self._read(query))

    def _read(self, query: _Query) -> None:
        assert query.line
        try:
            part = query.line.recv(_MOST_BYTES)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        query.data += part
        if len(query.data) >= 2 and len(query.data) - 2 >= int.from_bytes(query.data[:2], "big"):
            self._heard(query, bytes(query.data[2:]), last=True)
        elif not part:
            self._failed(query)

    def _heard(self, query: _Query, data: bytes, *, last: bool = False) -> None:
        try:
            answer = wire.read_answer(data)
        except wire.Malformed:
            answer = None
        asked = (query.id, query.name, query.kind)
        if answer is None or (answer.id, answer.name, answer.kind) != asked:
            if last:
                self._failed(query)
            return  # somebody else's: the right one may come yet
        self._release(query)
        if answer.truncated and not last and self._begin(query, _STREAM):
            return
        if answer.rcode in _USELESS:
            query.said = answer
            self._next(query)
        else:
            self._finish(query, answer)


class _Query:
    def __init__(self, name: str, kind: int, settings: Settings, done: Done) -> None:
        self.name = name
        self.kind = kind
        self.done = [done]
        self.turns = deque(settings.servers * settings.attempts)
        self.timeout_s = settings.timeout_s
        self.until_s = time.monotonic() + _WITHIN_S
        #: The last answer that was of no use.
        self.said: Answer | None = None
        self.server = ""
        self.line: _socket.socket | None = None
        self.timer: Timer | None = None
        self.id = 0
        self.data = bytearray()

    @property
    def overdue(self) -> bool:
        return time.monotonic() >= self.until_s

    @property
    def patience_s(self) -> float:
        return max(0.05, min(self.timeout_s, self.until_s - time.monotonic()))
