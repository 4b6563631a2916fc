"""What a question of the box is answered, what is asked outside for it, and what is let in."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import dns.flags
import dns.message
import dns.rcode
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axonkernel.box.caps import net_plan
from axonkernel.box.resolver import wire
from axonkernel.box.resolver.answering import Answering
from axonkernel.box.resolver.hostconf import Settings
from axonkernel.box.resolver.sets import Full
from axonkernel.box.resolver.wire import Malformed
from axonkernel.errors import BoxError
from axonkernel.policy.parse import parse


class Outside:
    """The host's resolvers: answers with rows of a zone, or with what it is given."""

    def __init__(self, *rows: str, search: tuple[str, ...] = ()) -> None:
        self.rows = [row.split(None, 4) for row in rows]
        self.settings = Settings(search=search)
        self.asked: list[tuple[str, int]] = []
        self.raw: bytes | None = None

    def ask(self, name: str, kind: int, done: Callable[[Any], None]) -> None:
        self.asked.append((name, kind))
        query = dns.message.make_query(f"{name}.", kind)
        reply = dns.message.make_response(query)
        names = [f"{name}."]
        for owner, ttl, _, text, value in self.rows:
            if owner in names and text in ("CNAME", wire.kind_text(kind)):
                reply.answer.append(dns.rrset.from_text(owner, int(ttl), "IN", text, value))
                names.append(value)
        if not reply.answer:
            reply.set_rcode(dns.rcode.NXDOMAIN)
        try:
            done(wire.read_answer(self.raw or reply.to_wire()))
        except Malformed:
            done(None)


class Sets:
    """What was let in, in order."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.let_in: list[tuple[list[str], int]] = []
        self.fault = fault

    def let(self, addresses: list[str], spans: Any, for_s: int) -> None:
        if self.fault:
            raise self.fault
        self.let_in.append((addresses, for_s))


class Told:
    """What would be told to the warden."""

    def __init__(self) -> None:
        self.names: list[tuple[str, str]] = []
        self.waiting: list[str] = []

    def refused(self, name: str, address: str = "", **_: Any) -> None:
        self.names.append((name, address))

    def answered(self, name: str, address: str) -> None: ...

    def asked(self, name: str) -> None:
        self.waiting.append(name)


class Box:
    """Asks an ``Answering`` of a policy; ``sets`` and ``told`` are what became of it."""

    def __init__(self, outside: Outside, fault: Exception | None = None, **net: Any) -> None:
        policy = parse({"net": net}, base="/ws", source="test").net
        assert policy is not None
        self.sets, self.told, self.replies = Sets(fault), Told(), []  # type: ignore[var-annotated]
        parts: Any = (outside, self.sets, self.told)
        self.answering = Answering(net_plan(policy), *parts)

    def ask(self, name: str, kind: str = "A") -> dns.message.Message:
        """The answer, which has to be there at once."""
        self.send(name, kind)
        return self.replies.pop()

    def send(self, name: str, kind: str = "A") -> None:
        query = dns.message.make_query(f"{name}.", kind)
        self.answering.answer(
            query.to_wire(),
            lambda data: self.replies.append(dns.message.from_wire(data)),
            stream=True,
            port=1,
        )


def rows(message: dns.message.Message) -> list[str]:
    return [row for each in message.answer for row in each.to_text().splitlines()]


def test_addresses_are_let_in_before_the_answer_and_for_its_time() -> None:
    """At least 30 s, at most an hour, and no answer outlives what is let in."""
    outside = Outside(
        "a.test. 1 IN A 45.90.10.1", "b.test. 90 IN A 45.90.10.2", "c.test. 86400 IN A 45.90.10.3"
    )
    box = Box(outside, allow=["a.test", "b.test", "c.test"])
    answers = [rows(box.ask(f"{name}.test")) for name in "abc"]
    assert box.sets.let_in == [(["45.90.10.1"], 30), (["45.90.10.2"], 90), (["45.90.10.3"], 3600)]
    assert answers[0] == ["a.test. 1 IN A 45.90.10.1"]
    assert answers[2] == ["c.test. 3600 IN A 45.90.10.3"]


@pytest.mark.parametrize("fault", [Full(), BoxError("table", "the operator's text")], ids=repr)
def test_what_cannot_be_let_in_is_not_answered(fault: Exception) -> None:
    """And told."""
    box = Box(Outside("a.test. 1 IN A 45.90.10.1"), fault, allow=["a.test"])
    answer = box.ask("a.test")
    assert answer.rcode() == dns.rcode.SERVFAIL and rows(answer) == []
    assert box.told.names == [("a.test", "")]


def test_records_that_do_not_belong_to_the_question_are_left_out() -> None:
    """Of other names, beside the chain of aliases, or behind one without an end."""
    outside = Outside()
    query = dns.message.make_query("a.test.", "A")
    reply = dns.message.make_response(query)
    for row in ("a.test. 9 IN CNAME b.test.", "b.test. 9 IN A 45.90.10.1",
                "evil.test. 9 IN A 45.90.10.9", "a.test. 9 IN A 45.90.10.8"):  # fmt: skip
        owner, ttl, _, kind, value = row.split()
        reply.answer.append(dns.rrset.from_text(owner, int(ttl), "IN", kind, value))
    outside.raw = reply.to_wire()
    box = Box(outside, allow=["a.test"])
    assert rows(box.ask("a.test")) == ["a.test. 9 IN CNAME b.test.", "b.test. 9 IN A 45.90.10.1"]
    assert box.sets.let_in == [(["45.90.10.1"], 30)]

    reply.answer = [
        dns.rrset.from_text("a.test.", 9, "IN", "CNAME", "b.test."),
        dns.rrset.from_text("b.test.", 9, "IN", "CNAME", "a.test."),
    ]
    outside.raw = reply.to_wire()
    assert box.ask("a.test").rcode() == dns.rcode.SERVFAIL


def test_services_come_without_hints_and_nothing_is_let_in_for_them() -> None:
    """The addresses are asked for by themselves."""
    outside = Outside("a.test. 9 IN HTTPS 1 . alpn=h2 ipv4hint=45.90.10.9")
    box = Box(outside, allow=["a.test"])
    assert rows(box.ask("a.test", "HTTPS")) == ['a.test. 9 IN HTTPS 1 . alpn="h2"']
    assert box.sets.let_in == []


@pytest.mark.parametrize("kind", ["TXT", "NULL", "ANY", "MX", "CNAME", "SRV", "SOA", "DNSKEY"])
def test_other_types_are_asked_about_only_where_any_name_is(kind: str) -> None:
    """Refused for a granted name, unless ``dns = "open"``."""
    outside = Outside('a.test. 9 IN TXT "data"', "a.test. 9 IN MX 1 m.test.")
    closed = Box(outside, allow=["a.test"])
    assert closed.ask("a.test", kind).rcode() == dns.rcode.REFUSED
    assert outside.asked == [] and closed.told.names == [("a.test", "")]
    opened = Box(outside, allow=["a.test"], dns="open")
    answer = opened.ask("A.Test", kind)
    assert len(outside.asked) == 1 and answer.question[0].name.to_text() == "A.Test."
    if kind in ("TXT", "MX"):
        assert len(rows(answer)) == 1


def test_the_machines_own_name_and_addresses_need_no_grant() -> None:
    """``localhost`` and the host name are the box's own loopback; the names of addresses are
    not told."""
    outside = Outside()
    box = Box(outside, allow=["a.test"])
    assert rows(box.ask("localhost")) == ["localhost. 30 IN A 127.0.0.1"]
    assert rows(box.ask("box")) == ["box. 30 IN A 127.0.0.1"]
    assert rows(box.ask("x.localhost", "AAAA")) == ["x.localhost. 30 IN AAAA ::1"]
    assert box.ask("1.10.90.45.in-addr.arpa", "PTR").rcode() == dns.rcode.NXDOMAIN
    assert (outside.asked, box.told.names, box.sets.let_in) == ([], [], [])


def test_a_name_that_a_person_is_asked_about_waits() -> None:
    """Answered when they say yes, refused when they say no; others do not wait."""
    outside = Outside("a.test. 9 IN A 45.90.10.1")
    box = Box(outside, allow=[], escalate=["a.test", "b.test"])
    for name in ("a.test", "a.test", "b.test", "c.test"):
        box.send(name)
    assert [message.rcode() for message in box.replies] == [dns.rcode.NXDOMAIN]
    assert box.told.waiting == ["a.test", "a.test", "b.test"] and outside.asked == []
    box.answering.grant("a.test", "tcp", "443")
    assert [rows(message) for message in box.replies[1:]] == [["a.test. 9 IN A 45.90.10.1"]] * 2
    box.answering.refuse("b.test")
    assert box.replies[-1].rcode() == dns.rcode.NXDOMAIN
    assert len(box.replies) == 4 and box.sets.let_in == [(["45.90.10.1"], 30)] * 2


def test_whoever_says_yes_a_name_lets_in_no_private_address() -> None:
    """Loopback, private and metadata are taken out of what a person let in, and what is left
    is let in; a literal grant of that very address brings it back."""
    answer = ("10.0.0.9", "127.0.0.1", "169.254.169.254", "::ffff:10.0.0.9", "45.90.10.1")
    lines = [f"a.test. 9 IN {'AAAA' if ':' in each else 'A'} {each}" for each in answer]
    for literal in ([], ["10.0.0.9:443"]):
        box = Box(Outside(*lines), allow=literal, escalate=["a.test"])
        for kind in ("A", "AAAA"):
            box.send("a.test", kind)
        box.answering.grant("a.test", "tcp", "443")
        four, six = map(rows, box.replies)
        kept = ["10.0.0.9"] * bool(literal) + ["45.90.10.1"]
        assert [row.split()[-1] for row in four] == kept and six == []
        assert box.sets.let_in == [(["45.90.10.1"], 30)]


def test_with_dns_off_nothing_is_answered_or_asked() -> None:
    """Granted or not."""
    outside = Outside("a.test. 9 IN A 45.90.10.1")
    box = Box(outside, allow=["a.test"], escalate=["b.test"], dns="off")
    assert [box.ask(f"{n}.test").rcode() for n in "ab"] == [dns.rcode.NXDOMAIN] * 2
    assert outside.asked == []


def test_short_names_are_tried_with_the_hosts_domains() -> None:
    """Only where the whole name is granted; a domain that makes no name is passed over."""
    outside = Outside("web.corp.test. 9 IN A 45.90.10.1", search=("bad..name", "corp.test", "lan"))
    box = Box(outside, allow=["web.corp.test", "web.lan"])
    assert rows(box.ask("web")) == [
        "web. 30 IN CNAME web.corp.test.", "web.corp.test. 9 IN A 45.90.10.1",
    ]  # fmt: skip
    assert box.ask("other").rcode() == dns.rcode.NXDOMAIN
    assert [name for name, _ in outside.asked] == ["web.corp.test"]


@given(st.binary(max_size=120), st.integers(0, 2**32))
def test_no_message_of_either_side_breaks_it(noise: bytes, seed: int) -> None:
    """Nearly right questions and answers, and noise: each is answered or malformed, and nothing
    is let in that no answer about a granted name has."""
    chance = random.Random(seed)

    def spoilt(data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(chance.randrange(5)):
            changed[chance.randrange(len(changed))] = chance.randrange(256)
        return bytes(changed)

    outside = Outside()
    query = dns.message.make_query("a.wild.test.", "A")
    reply = dns.message.make_response(query)
    reply.answer = [
        dns.rrset.from_text("a.wild.test.", 9, "IN", "CNAME", "b.test."),
        dns.rrset.from_text("b.test.", 9, "IN", "A", "45.90.10.1", "10.0.0.1"),
    ]
    box = Box(outside, allow=["*.wild.test"])
    for question in (query.to_wire(), spoilt(query.to_wire()), noise):
        outside.raw = spoilt(reply.to_wire())
        with contextlib.suppress(Malformed):
            box.answering.answer(question, len, stream=bool(seed % 2), port=1)
    for addresses, _ in box.sets.let_in:
        assert not any(address.startswith(("10.", "127.")) for address in addresses)
