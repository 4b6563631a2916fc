"""How questions come in: by datagrams and streams, many at once, and no more than is bearable."""

from __future__ import annotations

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from axonkernel.box.resolver import listening
from axonkernel.box.resolver.doors import Doors
from axonkernel.box.resolver.listening import Listening
from axonkernel.box.resolver.loop import Loop
from axonkernel.box.resolver.wire import Malformed


class Echo:
    """Answers what it was asked."""

    def __init__(self) -> None:
        self.asked: list[bytes] = []

    def answer(
        self, data: bytes, reply: Callable[[bytes], object], *, stream: bool, port: int
    ) -> None:
        assert port > 0
        self.asked.append(data)
        if data == b"broken":
            raise Malformed
        reply(data)


class Place:
    """The doors of a resolver, in a loop of this process."""

    def __init__(self) -> None:
        self.loop, self.echo = Loop(), Echo()
        self._sockets = contextlib.ExitStack()
        self.datagrams = self._door(socket.SOCK_DGRAM)
        self.streams = self._door(socket.SOCK_STREAM)
        self.streams.listen()
        self._doors = Listening(self.loop, Doors((self.datagrams,), (self.streams,)), self.echo)

    def _door(self, kind: int) -> socket.socket:
        door = self._sockets.enter_context(socket.socket(socket.AF_INET, kind))
        door.bind(("127.0.0.1", 0))
        door.setblocking(False)
        return door

    def caller(self, door: socket.socket) -> socket.socket:
        caller = self._sockets.enter_context(socket.socket(socket.AF_INET, door.type))
        caller.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        caller.connect(door.getsockname())
        caller.settimeout(10)
        return caller

    def turn(self) -> None:
        """Let it do what there is to do: what was sent to loopback is there already."""
        for _ in range(20):
            self.loop.after(0.0, self.loop.stop)
            self.loop.run()

    def close(self) -> None:
        for stream in list(self._doors._streams):
            stream.close()
        self._sockets.close()


@pytest.fixture
def place() -> Iterator[Place]:
    found = Place()
    yield found
    found.close()


def framed(data: bytes) -> bytes:
    return struct.pack("!H", len(data)) + data


def test_datagrams_go_back_to_who_asked(place: Place) -> None:
    """Each to its own; one that is no question is not answered and harms no other."""
    one, two = place.caller(place.datagrams), place.caller(place.datagrams)
    one.send(b"broken")
    one.send(b"one")
    two.send(b"two")
    place.turn()
    assert (one.recv(99), two.recv(99)) == (b"one", b"two")


def test_a_stream_has_many_questions_in_any_parts(place: Place) -> None:
    """Two at once, one in pieces; after one that is none it is closed, as is one too long."""
    caller = place.caller(place.streams)
    caller.sendall(framed(b"first") + framed(b"second") + framed(b"third")[:3])
    place.turn()
    caller.sendall(framed(b"third")[3:])
    place.turn()
    assert caller.recv(99) == framed(b"first") + framed(b"second") + framed(b"third")
    for bad in (framed(b"broken"), b"\xff\xff"):
        other = place.caller(place.streams)
        other.sendall(bad)
        place.turn()
        assert other.recv(99) == b""


def test_there_is_an_end_to_streams(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest makes room for one more."""
    monkeypatch.setattr(listening, "MOST_STREAMS", 2)
    callers = [place.caller(place.streams) for _ in range(3)]
    place.turn()
    assert callers[0].recv(99) == b""
    callers[2].sendall(framed(b"x"))
    place.turn()
    assert callers[2].recv(99) == framed(b"x")


def test_a_flood_waits_for_the_next_second(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a second has no room for stays in the queue, or has its stream closed; later there
    is room again."""
    now = [100.0]
    monkeypatch.setattr(listening, "PER_S", 50)
    monkeypatch.setattr(listening, "time", SimpleNamespace(monotonic=lambda: now[0]))
    caller = place.caller(place.datagrams)
    for n in range(80):
        caller.send(b"%d" % n)
    place.turn()
    assert len(place.echo.asked) == 50
    stream = place.caller(place.streams)
    stream.sendall(framed(b"x"))
    place.turn()
    assert stream.recv(99) == b"" and len(place.echo.asked) == 50
    now[0] = 101.0
    place.loop.after(1.1, place.loop.stop)
    place.loop.run()
    assert len(place.echo.asked) == 80
