"""The doors of the resolver, by which the box asks: datagrams, and streams with many questions.

Standard library only.
"""

from __future__ import annotations

import _socket
import contextlib
import struct
import time
from collections.abc import Callable
from functools import partial

from axonkernel.box.resolver.doors import Doors
from axonkernel.box.resolver.loop import Loop, Timer
from axonkernel.box.resolver.wire import Malformed
from axonkernel.typed import Protocol

__all__ = ["IDLE_S", "MOST_STREAMS", "PER_S", "Listening"]

#: Streams at once, and how long one may be silent (seconds).
MOST_STREAMS, IDLE_S = 128, 10.0
#: Questions that are taken in a second: answering costs time that no limit of the box counts.
PER_S = 5000
_AT_ONCE = 64
_QUESTION_BYTES = 4096


class _Answers(Protocol):
    def answer(
        self, data: bytes, reply: Callable[[bytes], object], *, stream: bool, port: int
    ) -> None: ...


class Listening:
    """Takes every question to ``answers``, and its answer back to who asked."""

    def __init__(self, loop: Loop, doors: Doors, answers: _Answers) -> None:
        self._loop = loop
        self._answers = answers
        self._streams: dict[_Stream, None] = {}
        self._taken = 0
        self._second_s = 0.0
        for door in doors.datagrams:
            loop.add(door.fileno(), partial(self._take_datagrams, door))
        for door in doors.streams:
            loop.add(door.fileno(), partial(self._accept, door))

    def answer(
        self, data: bytes, reply: Callable[[bytes], object], *, stream: bool, port: int
    ) -> None:
        """Have a question of a stream answered, or of any. Raises Malformed, also for one more
        than a second has room for."""
        if not self._has_room():
            raise Malformed("too many")
        self._taken += 1
        self._answers.answer(data, reply, stream=stream, port=port)

    def _has_room(self) -> bool:
        now_s = time.monotonic()
        if now_s - self._second_s >= 1.0:
            self._taken, self._second_s = 0, now_s
        return self._taken < PER_S

    def _rest(self, door: _socket.socket) -> None:
        """Leave what comes by a door to the kernel until the second is over."""
        self._loop.remove(door.fileno())

        def go_on() -> None:
            self._loop.add(door.fileno(), partial(self._take_datagrams, door))

        self._loop.after(self._second_s + 1.0 - time.monotonic(), go_on)

    def _take_datagrams(self, door: _socket.socket) -> None:
        for _ in range(_AT_ONCE):
            if not self._has_room():
                self._rest(door)
                return
            try:
                data, source = door.recvfrom(_QUESTION_BYTES)
            except OSError:  # none is left
                return
            with contextlib.suppress(Malformed):
                reply = partial(_send, door, source)
                self.answer(data, reply, stream=False, port=source[1])

    def _accept(self, door: _socket.socket) -> None:
        for _ in range(_AT_ONCE):
            try:
                # As socket.accept does; that module takes long to load, and has no other use here.
                fd, source = door._accept()  # type: ignore[attr-defined]
            except OSError:
                return
            sock = _socket.socket(fileno=fd)
            sock.setblocking(False)
            if len(self._streams) >= MOST_STREAMS:
                next(iter(self._streams)).close()
            stream = _Stream(self._loop, sock, source[1], self, self._streams)
            self._streams[stream] = None


def _send(door: _socket.socket, source: tuple[str, int], answer: bytes) -> None:
    with contextlib.suppress(OSError):  # who asked has gone, or reads nothing
        door.sendto(answer, source)


class _Stream:
    def __init__(
        self,
        loop: Loop,
        sock: _socket.socket,
        port: int,
        answers: _Answers,
        streams: dict[_Stream, None],
    ) -> None:
        self._loop = loop
        self._sock = sock
        self._port = port
        self._answers = answers
        self._streams = streams
        self._data = bytearray()
        self._timer: Timer = loop.after(IDLE_S, self.close)
        loop.add(sock.fileno(), self._read)

    def close(self) -> None:
        if self._sock.fileno() >= 0:
            self._timer.cancel()
            self._loop.remove(self._sock.fileno())
            self._streams.pop(self, None)
            self._sock.close()

    def _read(self) -> None:
        try:
            part = self._sock.recv(_QUESTION_BYTES)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        if not part:
            self.close()
            return
        self._timer.cancel()
        self._timer = self._loop.after(IDLE_S, self.close)
        self._data += part
        try:
            self._take()
        except Malformed:
            self.close()

    def _take(self) -> None:
        while len(self._data) >= 2:
            end = 2 + int.from_bytes(self._data[:2], "big")
            if end > _QUESTION_BYTES:
                raise Malformed("too long")
            if len(self._data) < end:
                return
            question = bytes(self._data[2:end])
            del self._data[:end]
            self._answers.answer(question, self._send, stream=True, port=self._port)

    def _send(self, answer: bytes) -> None:
        if self._sock.fileno() < 0:
            return
        framed = struct.pack("!H", len(answer)) + answer
        try:
            if self._sock.send(framed) == len(framed):
                return
        except OSError:
            pass
        self.close()  # it reads nothing
