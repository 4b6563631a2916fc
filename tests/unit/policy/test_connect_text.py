"""A destination in a request is HOST:PORT and nothing that only looks like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axonkernel.policy.decide import compile
from axonkernel.policy.model import NetPolicy, Policy
from axonkernel.policy.request import ConnectRequest, Request

OPEN = compile(Policy(net=NetPolicy(allow=True)))
UNDECLARED = compile(Policy())


@pytest.mark.parametrize(
    ("text", "request_"),
    [
        ("a.example.com:443", ConnectRequest("a.example.com", 443)),
        ("a.example.com", ConnectRequest("a.example.com", 443)),
        ("10.0.0.1:5432/udp", ConnectRequest("10.0.0.1", 5432, "udp")),
        ("10.0.0.1:5432/tcp", ConnectRequest("10.0.0.1", 5432)),
        ("[::1]:80", ConnectRequest("::1", 80)),
        ("[fd00::1]", ConnectRequest("fd00::1", 443)),
        ("[::1]:53/udp", ConnectRequest("::1", 53, "udp")),
    ],
)
def test_documented_spellings_are_read(text: str, request_: ConnectRequest) -> None:
    """Host, port and protocol, and what is left out; all of them can be allowed."""
    assert Request.connect(text) == request_
    assert OPEN.decide(request_).verdict == "allow"


@pytest.mark.parametrize(
    "text",
    """10.0.0.1:5432/UDP 10.0.0.1:5432/sctp 10.0.0.1:5432/ 10.0.0.1:5432/udp/ a.example.com/x:443
    a.example.com/udp:443 http://a.example.com:443 a.example.com: a.example.com:+443
    a.example.com:443:443 a.example.com:0x1bb a.example.com:99999 a.example.com:0 :443
    a.example.com:123456 a.example.com:\u0664\u0664\u0663 ::1 ::1:80 fe80::1%eth0 [fe80::1%eth0]:80
    [::1]80 [::1]: [a.example.com]:443 [10.0.0.1]:80 [::1 ::1]:80 [[::1]]:80 u@a.example.com:443
    a.example.com:443#x a.example.com:443?x \ud800.example.com:443 a.example.com:*
    a.example.com:1-9""".split(),
)
def test_everything_else_is_malformed(text: str) -> None:
    """Not taken for something near it, whether net is open or not declared; shown as asked."""
    request = Request.connect(text)
    for ruleset in (OPEN, UNDECLARED):
        assert ruleset.decide(request).code == "request.malformed"
    assert request.action.startswith("connect ")
    request.action.encode()


@pytest.mark.parametrize("text", ["", " a.test:1", "a.test:1 ", "a.test :1", "a.test:1\n", "a\0:1"])
def test_blanks_and_controls_are_malformed(text: str) -> None:
    """Nothing is stripped: what was judged is what would be connected to."""
    assert OPEN.decide(Request.connect(text)).code == "request.malformed"


@given(st.text() | st.text("ab.:/[]1udptc%-"))
def test_any_text_is_a_request(text: str) -> None:
    """Total: no text raises, and what is allowed reads back as what was asked."""
    request = Request.connect(text)
    if OPEN.decide(request).verdict == "allow":
        shown = request.action.removeprefix("connect ")
        assert Request.connect(shown) == request
