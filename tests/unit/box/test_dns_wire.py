"""DNS messages by hand, beside the library that the lab's name server uses."""

from __future__ import annotations

import contextlib
import random

import dns.edns
import dns.flags
import dns.message
import dns.rcode
import dns.rdatatype
import dns.rrset
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axonkernel.box.resolver import svcb, wire
from axonkernel.box.resolver.wire import Malformed, Record

LABEL = st.from_regex(r"[a-zA-Z0-9_-]{1,20}", fullmatch=True)
NAME = st.lists(LABEL, min_size=1, max_size=5).map(".".join)
KIND = st.sampled_from(["A", "AAAA", "HTTPS", "TXT", "ANY", "NULL", "MX"])


def query(name: str, kind: str, *, edns: int = -1) -> dns.message.Message:
    """With EDNS where ``edns`` is the size of datagrams."""
    message = dns.message.make_query(f"{name}.", kind)
    if edns >= 0:
        message.use_edns(0, payload=edns)
    return message


@given(NAME, KIND, st.sampled_from([-1, 0, 512, 1232, 65535]))
def test_a_question_is_read_as_the_library_wrote_it(name: str, kind: str, size: int) -> None:
    """Name in lower case, spelling kept beside it, type, EDNS and its size in bounds."""
    message = query(name, kind, edns=size)
    data = message.to_wire()
    found = wire.read_question(data)
    assert (found.id, found.name) == (message.id, name.lower())
    assert wire.kind_text(found.kind) == kind and found.klass == 1 and found.opcode == 0
    assert found.asked == data[12 : 12 + len(found.asked)] and found.recursive
    assert found.edns is (size >= 0)
    assert found.most_bytes == (512 if size < 512 else min(size, 4096))


@given(NAME, st.sampled_from(["A", "AAAA", "HTTPS"]))
def test_a_question_is_written_so_that_the_library_reads_it(name: str, kind: str) -> None:
    """With EDNS, so that answers of some length come without TCP."""
    number = dns.rdatatype.from_text(kind)
    found = dns.message.from_wire(wire.ask(7, name.lower(), number))
    (question,) = found.question
    assert (found.id, question.rdtype) == (7, number) and found.flags & dns.flags.RD
    assert question.name.to_text(omit_final_dot=True) == name.lower()
    assert found.edns == 0 and found.payload == 1232


def test_an_answer_is_read_with_its_aliases_and_pointers() -> None:
    """Records of other kinds, classes and sections are passed over."""
    message = query("www.example.test", "A")
    reply = dns.message.make_response(message)
    rows = [
        ("www.example.test.", 60, "CNAME", "Edge.Example.TEST."),
        ("edge.example.test.", 20, "A", "45.90.10.1", "45.90.10.2"),
        ("edge.example.test.", 20, "TXT", '"x"'),
    ]
    reply.answer = [dns.rrset.from_text(n, ttl, "IN", k, *v) for n, ttl, k, *v in rows]
    reply.authority = [dns.rrset.from_text("example.test.", 9, "IN", "NS", "ns.example.test.")]
    reply.additional = [dns.rrset.from_text("ns.example.test.", 9, "IN", "A", "45.90.10.9")]
    found = wire.read_answer(reply.to_wire())
    assert (found.name, found.kind, found.rcode) == ("www.example.test", wire.A, 0)
    alias, *addresses = found.records
    assert alias == Record("www.example.test", wire.CNAME, 60, "edge.example.test")
    # The library writes the addresses of a set in any order.
    assert sorted(addresses) == [
        Record("edge.example.test", wire.A, 20, "45.90.10.1"),
        Record("edge.example.test", wire.A, 20, "45.90.10.2"),
    ]


def test_what_is_written_keeps_the_spelling_and_the_library_reads_it() -> None:
    """0x20 in the answer's owner, a chain of aliases, addresses of both families, EDNS."""
    question = wire.read_question(query("wWw.ExAmple.tEst", "AAAA", edns=1232).to_wire())
    records = [
        Record("www.example.test", wire.CNAME, 60, "edge.example.test"),
        Record("edge.example.test", wire.CNAME, 60, "edge.other.test"),
        Record("edge.other.test", wire.AAAA, 20, "2a0e:97c0:90::1"),
    ]
    found = dns.message.from_wire(wire.write_answer(question, 0, records))
    assert [each.to_text() for each in found.answer] == [
        "wWw.ExAmple.tEst. 60 IN CNAME edge.example.test.",
        "edge.example.test. 60 IN CNAME edge.other.test.",
        "edge.other.test. 20 IN AAAA 2a0e:97c0:90::1",
    ]
    assert found.edns == 0 and found.flags & dns.flags.QR and found.flags & dns.flags.RA


def test_fifty_addresses_fit_with_edns_and_are_asked_for_by_tcp_without() -> None:
    """Truncated: no records at all, and the mark."""
    records = [Record("many.test", wire.A, 5, f"45.90.10.{n}") for n in range(50)]
    plain, roomy = (
        wire.read_question(query("many.test", "A", edns=n).to_wire()) for n in (-1, 4096)
    )
    cut = dns.message.from_wire(wire.write_answer(plain, 0, records))
    assert cut.flags & dns.flags.TC and not cut.answer
    for data in (
        wire.write_answer(roomy, 0, records),
        wire.write_answer(plain, 0, records, stream=True),
    ):
        whole = dns.message.from_wire(data)
        assert not whole.flags & dns.flags.TC and len(whole.answer[0]) == 50


def test_a_refusal_says_that_a_policy_refuses() -> None:
    """The extended error of RFC 8914 where the asker knows EDNS."""
    question = wire.read_question(query("evil.test", "A", edns=1232).to_wire())
    found = dns.message.from_wire(wire.write_answer(question, wire.NXDOMAIN, blocked=True))
    assert found.rcode() == dns.rcode.NXDOMAIN
    (option,) = found.options
    assert isinstance(option, dns.edns.EDEOption) and option.code == 15


def test_characters_that_host_names_do_not_have_stay_apart() -> None:
    """A dot or NUL inside a label is not the dot between two."""
    data = query("x.test", "A").to_wire()
    odd = data.replace(b"\x01x\x04test", b"\x03x.\0\x02te")
    assert wire.read_question(odd).name == "x\\046\\000.te"
    with pytest.raises(ValueError, match="not a host name"):
        wire.packed_name("x\\046.test")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 11,
        query("a.test", "A").to_wire()[:-1],
        dns.message.make_response(query("a.test", "A")).to_wire(),
        query("a.test", "A").to_wire()[:12] + b"\xc0\x0c\0\1\0\1",
        query("a.test", "A").to_wire()[:12] + b"\x40" + b"a" * 64 + b"\0\0\1\0\1",
        query("a.test", "A").to_wire()[:12] + b"\x3f" + b"a" * 63 + b"\x3f" + b"a" * 63 * 4,
    ],
)
def test_what_is_no_question_is_malformed(data: bytes) -> None:
    """Short, an answer, a pointer in a question, labels and names over their length."""
    with pytest.raises(Malformed):
        wire.read_question(data)


def test_pointers_that_lead_nowhere_end() -> None:
    """To themselves, forward, or in a ring."""
    head = dns.message.make_response(query("a.test", "A")).to_wire()
    counted = head[:6] + b"\0\1" + head[8:]
    for pointer in (len(head), len(head) + 2, 0x3FFF):
        data = counted + (0xC000 | pointer).to_bytes(2, "big") + b"\xc0\x0c" + bytes(8)
        with pytest.raises(Malformed):
            wire.read_answer(data)


@given(st.binary(max_size=200), st.integers(0, 2**32))
def test_any_bytes_are_read_or_malformed(noise: bytes, seed: int) -> None:
    """Whatever comes from the box or from outside; also nearly right messages."""
    reply = dns.message.make_response(query("a.b.test", "A", edns=900))
    reply.answer = [dns.rrset.from_text("a.b.test.", 9, "IN", "A", "45.90.10.9")]
    chance = random.Random(seed)
    nearly = bytearray(reply.to_wire())
    for _ in range(chance.randrange(4)):
        nearly[chance.randrange(len(nearly))] = chance.randrange(256)
    for data in (noise, bytes(nearly), bytes(nearly)[: chance.randrange(len(nearly))]):
        for read in (wire.read_question, wire.read_answer):
            with contextlib.suppress(Malformed):
                read(data)


def service(text: str) -> bytes:
    """The data of an HTTPS record from its text."""
    (record,) = dns.rrset.from_text("a.test.", 60, "IN", "HTTPS", text)
    return record.to_wire() or b""


PORTS = [range(443, 444), range(8000, 8100)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 . alpn=h2,h3", "1 . alpn=h2,h3"),
        ("1 . alpn=h2 ipv4hint=45.90.10.9 ipv6hint=2001:db8::9 ech=AARhYmNk", "1 . alpn=h2"),
        ("1 . no-default-alpn alpn=h2 port=8050", "1 . no-default-alpn alpn=h2 port=8050"),
        ("1 . mandatory=alpn alpn=h2", "1 . mandatory=alpn alpn=h2"),
        ("1 . alpn=h2 port=8443", None),
        ("1 . mandatory=ipv4hint ipv4hint=45.90.10.9", None),
        ("0 other.test.", None),
        ("1 other.test. alpn=h2", None),
    ],
)
def test_a_service_is_told_without_its_hints_and_keys(text: str, expected: str | None) -> None:
    """Neither an address that nobody looked at, nor another name or an ungranted port."""
    found = svcb.kept(service(text), PORTS)
    assert found == (None if expected is None else service(expected))


@given(st.binary(max_size=60))
def test_any_service_is_read_or_of_no_use(data: bytes) -> None:
    """No exception gets out."""
    found = svcb.kept(data, PORTS)
    assert found is None or len(found) <= len(data)
