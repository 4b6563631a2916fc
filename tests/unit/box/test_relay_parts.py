"""The parts of the relay that need no socket: what a proxy says, names and their addresses."""

from __future__ import annotations

from ipaddress import IPv4Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axonkernel.box.resolver import made_up
from axonkernel.box.resolver.known import Known
from axonkernel.box.resolver.made_up import MADE_UP, MadeUp
from axonkernel.box.resolver.proxy import (
    REPLY_BYTES,
    Proxy,
    Reply,
    parse_proxy,
    read_reply,
    request,
)


@pytest.mark.parametrize(
    ("url", "proxy"),
    [
        ("http://proxy.test:3128", Proxy("proxy.test", 3128)),
        ("http://proxy.test", Proxy("proxy.test", 80)),
        ("http://[2001:db8::1]:8080/", Proxy("2001:db8::1", 8080)),
        ("http://user:pass@p.test:1", Proxy("p.test", 1, "dXNlcjpwYXNz")),
        ("http://us%40er:pa%3Ass@p.test:1", Proxy("p.test", 1, "dXNAZXI6cGE6c3M=")),
        ("http://user@p.test:1", Proxy("p.test", 1, "dXNlcjo=")),
    ],
)
def test_the_url_of_a_proxy(url: str, proxy: Proxy) -> None:
    """Its port, and what it wants to hear, which is not shown."""
    assert parse_proxy(url) == proxy
    assert not proxy.credentials or proxy.credentials not in repr(proxy)


def test_what_a_proxy_is_asked() -> None:
    """One host and port; who asks only where the URL says so."""
    assert request("a.test", 22, "") == b"CONNECT a.test:22 HTTP/1.1\r\nHost: a.test:22\r\n\r\n"
    assert b"\r\nProxy-Authorization: Basic dXNlcg==\r\n\r\n" in request("a.test", 22, "dXNlcg==")


@pytest.mark.parametrize(
    ("data", "reply"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\n", Reply("open")),
        (b"HTTP/1.0 200 \r\nVia: x\r\n\r\nSSH-2.0", Reply("open", rest=b"SSH-2.0")),
        (b"HTTP/1.1 299\r\n\r\n", Reply("open")),
        (b"HTTP/1.1 200 OK\n\nx", Reply("open", rest=b"x")),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n\r\nx", Reply("open", rest=b"x")),
        (b"HTTP/1.1 100 Wait\r\n\r\n" * 2000, Reply("more")),
        (b"HTTP/1.1 407 Who?\r\nContent-Length: 2\r\n\r\nno", Reply("refused", 407)),
        (b"HTTP/1.1 302 There\r\nLocation: /\r\n\r\n", Reply("refused", 302)),
        (b"", Reply("more")),
        (b"HTTP/1", Reply("more")),
        (b"HTTP/1.1 200 OK\r\nVia: ", Reply("more")),
        (b"SSH-2.0-x\r\n", Reply("malformed")),
        (b"HTTP/2 200 OK\r\n\r\n", Reply("malformed")),
        (b"HTTP/1.1 2000 OK\r\n\r\n", Reply("malformed")),
        (b"HTTP/1.1 OK\r\n\r\n", Reply("malformed")),
        (b"HTTP/1.1 200 OK\r\nX: " + bytes(REPLY_BYTES), Reply("malformed")),
    ],
)
def test_what_a_proxy_answers(data: bytes, reply: Reply) -> None:
    """A way, a refusal, the beginning of either, or something else."""
    assert read_reply(data) == reply


@given(st.binary(max_size=200), st.integers(0, 60))
def test_an_answer_is_read_alike_in_any_pieces(rest: bytes, cut: int) -> None:
    """What is not whole is waited for, and bytes after the head are all kept."""
    head = b"HTTP/1.1 200 Connection established\r\nVia: 1.1 corp\r\n\r\n"
    assert read_reply(head[: min(cut, len(head) - 1)]) == Reply("more")
    assert read_reply(head + rest) == Reply("open", rest=rest)


@given(st.binary(max_size=300))
def test_any_answer_is_read(data: bytes) -> None:
    """The reader is total."""
    assert read_reply(data).kind in ("more", "open", "refused", "malformed")


def test_made_up_addresses_are_one_for_each_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of the loopback, the same again for the same name, never of two; not without end; and
    not those of a resolver before this one."""
    monkeypatch.setattr(made_up, "MOST", 100)
    first = MadeUp()
    addresses = [first.address(f"n{number}.test") for number in range(100)]
    assert len(set(addresses)) == 100 and first.address("n7.test") == addresses[7]
    assert all(each and IPv4Address(each) in MADE_UP for each in addresses)
    assert first.address("one.more.test") is None
    assert first.name(str(addresses[7])) == "n7.test" and first.name("127.128.0.0") == ""
    second = MadeUp()
    assert second.name(str(addresses[7])) == ""
    assert second.address("n7.test") != addresses[7]


def test_the_last_addresses_of_a_name_are_known() -> None:
    """The newest first, each once, a few of them; and of so many names only."""
    known = Known()
    for number in [*range(20), 13]:
        known.note("a.test", f"192.0.2.{number}")
    assert known.addresses("a.test") == [
        f"192.0.2.{number}" for number in (13, 19, 18, 17, 16, 15, 14, 12)
    ]
    assert known.addresses("b.test") == []
    for number in range(600):
        known.note(f"n{number}.test", "192.0.2.1")
    assert known.addresses("a.test") == [] and known.addresses("n599.test")
