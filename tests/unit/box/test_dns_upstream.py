"""How the host's resolvers are asked: one after the other, each question by a port of its own.

The resolvers are sockets of this process on loopback addresses; nothing else is sent to.
"""

from __future__ import annotations

import _socket
import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest

from axonkernel.box.resolver.doors import Lines, lines
from axonkernel.box.resolver.hostconf import HostConf, Settings
from axonkernel.box.resolver.loop import Loop
from axonkernel.box.resolver.upstream import Upstream
from axonkernel.box.resolver.wire import Answer

#: What a resolver does with a query: messages to send back, as bytes.
Answers = Callable[[dns.message.Message], list[bytes]]
GIVE_UP_S = 20.0


class Conf(HostConf):
    """Settings that are given."""

    def __init__(self, servers: tuple[str, ...], timeout_s: float) -> None:
        super().__init__()
        self._given = Settings(servers, timeout_s=timeout_s, attempts=1)

    def now(self) -> Settings:
        return self._given


class World:
    """A loop with resolvers and an ``Upstream`` that asks them."""

    def __init__(self) -> None:
        self.loop = Loop()
        self.asked: list[tuple[str, int]] = []  # (address, the port that it came from)
        self.by_tcp = 0
        self.port = 0
        self._open: list[_socket.socket] = []

    def resolver(self, address: str, answers: Answers, *, tcp: Answers | None = None) -> None:
        """Listen at an address, at the same port as the others."""
        door = self._listen(socket.SOCK_DGRAM, address)
        self.port = door.getsockname()[1]

        def take() -> None:
            data, source = door.recvfrom(4096)
            self.asked.append((address, source[1]))
            for each in answers(dns.message.from_wire(data)):
                door.sendto(each, source)

        self.loop.add(door.fileno(), take)
        if tcp is not None:
            stream = self._listen(socket.SOCK_STREAM, address)
            stream.listen()
            self.loop.add(stream.fileno(), lambda: self._accept(stream, tcp))

    def _listen(self, kind: int, address: str) -> socket.socket:
        door = socket.socket(socket.AF_INET, kind)
        door.bind((address, self.port))
        self._open.append(door)
        return door

    def _accept(self, stream: socket.socket, answers: Answers) -> None:
        sock, _ = stream.accept()
        self._open.append(sock)
        self.loop.add(sock.fileno(), lambda: self._reply(sock, answers))

    def _reply(self, sock: socket.socket, answers: Answers) -> None:
        self.loop.remove(sock.fileno())
        data = sock.recv(4096)
        self.by_tcp += 1
        (answer,) = answers(dns.message.from_wire(data[2:]))
        framed = struct.pack("!H", len(answer)) + answer
        sock.sendall(framed[:1])  # in parts, as a slow one would
        sock.sendall(framed[1:])

    def lines(self, *, datagrams: int = 48, streams: int = 8) -> Lines:
        """So many of each kind and family."""
        made = lines()
        self._open += [*made.datagrams, *made.streams]
        return Lines(made.datagrams[:datagrams], made.streams[:streams])

    def upstream(
        self, *servers: str, some: Lines | None = None, timeout_s: float = 4.0
    ) -> Upstream:
        """Asks ``servers``, by all lines or by some."""
        conf = Conf(servers, timeout_s)
        return Upstream(self.loop, self.lines() if some is None else some, conf, self.port)

    def ask(self, upstream: Upstream, *names: str) -> list[Answer | None]:
        """All at once; their answers in the order of the names."""
        found: dict[str, list[Answer | None]] = {}
        left = len(names)

        def done(name: str) -> Callable[[Answer | None], None]:
            def take(answer: Answer | None) -> None:
                nonlocal left
                found.setdefault(name, []).append(answer)
                left -= 1
                if not left:
                    self.loop.stop()

            return take

        for name in names:
            upstream.ask(name, 1, done(name))
        if left:
            self.loop.after(GIVE_UP_S, self.loop.stop)
            self.loop.run()
        return [found[name].pop(0) for name in names]

    def close(self) -> None:
        for each in self._open:
            each.close()


@pytest.fixture
def world() -> Iterator[World]:
    found = World()
    yield found
    found.close()


def right(query: dns.message.Message) -> dns.message.Message:
    reply = dns.message.make_response(query)
    name = query.question[0].name.to_text()
    reply.answer = [dns.rrset.from_text(name, 9, "IN", "A", "45.90.10.1")]
    return reply


def good(query: dns.message.Message) -> list[bytes]:
    return [right(query).to_wire()]


def silent(_: dns.message.Message) -> list[bytes]:
    return []


def failing(query: dns.message.Message) -> list[bytes]:
    reply = dns.message.make_response(query)
    reply.set_rcode(dns.rcode.SERVFAIL)
    return [reply.to_wire()]


def addresses(answers: list[Answer | None]) -> list[Any]:
    return [answer and [record.value for record in answer.records] for answer in answers]


@pytest.mark.parametrize("first", [silent, failing], ids=["silent", "failing"])
def test_the_next_one_is_asked(world: World, first: Answers) -> None:
    """After one that says nothing in time, cannot, or is not there at all."""
    world.resolver("127.0.0.2", first)
    world.resolver("127.0.0.3", good)
    upstream = world.upstream("127.0.0.4", "127.0.0.2", "127.0.0.3", timeout_s=0.5)
    assert addresses(world.ask(upstream, "a.test")) == [["45.90.10.1"]]
    assert [address for address, _ in world.asked] == ["127.0.0.2", "127.0.0.3"]


def test_when_none_can_answer_that_is_said(world: World) -> None:
    """The last failure, or nothing."""
    world.resolver("127.0.0.2", failing)
    (answer,) = world.ask(world.upstream("127.0.0.2"), "a.test")
    assert answer is not None and answer.rcode == dns.rcode.SERVFAIL
    assert world.ask(world.upstream("127.0.0.4"), "a.test") == [None]
    assert world.ask(world.upstream("127.0.0.2", some=Lines()), "a.test") == [None]


def test_only_the_answer_to_the_question_counts(world: World) -> None:
    """Another number, another name, another type, noise: passed over for the right one."""

    def forged(query: dns.message.Message) -> list[bytes]:
        number, name, kind = right(query), right(query), right(query)
        number.id ^= 1
        name.question = dns.message.make_query("evil.test.", "A").question
        kind.question = dns.message.make_query("a.test.", "AAAA").question
        false = [each.to_wire() for each in (number, name, kind)]
        return [*false, b"", b"noise", *good(query)]

    world.resolver("127.0.0.2", forged)
    upstream = world.upstream("127.0.0.2")
    assert addresses(world.ask(upstream, "a.test")) == [["45.90.10.1"]]


def test_a_cut_answer_is_asked_for_by_tcp(world: World) -> None:
    """Of the same server, again and again by the same line; one that does not answer there is
    left for the next."""

    def cut(query: dns.message.Message) -> list[bytes]:
        reply = dns.message.make_response(query)
        reply.flags |= dns.flags.TC
        return [reply.to_wire()]

    world.resolver("127.0.0.2", cut, tcp=good)
    upstream = world.upstream("127.0.0.2", some=world.lines(streams=1))
    for n in range(3):
        assert addresses(world.ask(upstream, f"n{n}.test")) == [["45.90.10.1"]]
    assert world.by_tcp == 3
    world.resolver("127.0.0.3", cut)
    world.resolver("127.0.0.4", good)
    upstream = world.upstream("127.0.0.3", "127.0.0.4")
    assert addresses(world.ask(upstream, "a.test")) == [["45.90.10.1"]]


def test_each_question_has_a_port_of_its_own(world: World) -> None:
    """Also by the same line; the same question at one time is asked once."""
    world.resolver("127.0.0.2", good)
    upstream = world.upstream("127.0.0.2", some=world.lines(datagrams=1))
    names = [f"n{n}.test" for n in range(40)]
    assert addresses(world.ask(upstream, *names, *names)) == [["45.90.10.1"]] * 80
    assert len(world.asked) == 40
    assert len({port for _, port in world.asked}) > 30


def test_more_questions_than_lines_wait_and_none_is_lost(world: World) -> None:
    """Where nobody answers either: each ends."""
    world.resolver("127.0.0.2", good)
    upstream = world.upstream("127.0.0.2")
    names = [f"n{n}.test" for n in range(300)]
    assert addresses(world.ask(upstream, *names)) == [["45.90.10.1"]] * 300
    nobody = world.upstream("127.0.0.4")
    assert world.ask(nobody, *names) == [None] * 300
