"""Destinations: names, addresses, networks, ports, and what no broad entry grants."""

from __future__ import annotations

from typing import Any

import pytest

from axonkernel.policy.decide import BoxGrants, compile
from axonkernel.policy.model import NetPolicy, Policy
from axonkernel.policy.parse import parse
from axonkernel.policy.request import ConnectRequest, Decision, Request


def ask(to: str, **lists: Any) -> Decision:
    return compile(Policy(net=NetPolicy(**lists))).decide(Request.connect(to))


@pytest.mark.parametrize(
    ("host", "verdict"),
    [
        ("evil-example.test", "deny"),
        ("example.test", "deny"),
        ("a.example.test", "allow"),
        ("a.b.example.test", "allow"),
        ("A.EXAMPLE.test.", "allow"),
        ("example.test.evil.test", "deny"),
    ],
)
def test_a_wildcard_ends_at_a_label(host: str, verdict: str) -> None:
    """``*.example.test`` is what lies below it, not the name itself nor a longer word."""
    assert ask(host, allow=("*.example.test:443",)).verdict == verdict


@pytest.mark.parametrize(
    ("to", "verdict"),
    [
        ("svc.test:443", "allow"),
        ("svc.test:22", "deny"),
        ("svc.test:443/udp", "deny"),
        ("svc.test:8000", "allow"),
        ("svc.test:8100", "allow"),
        ("svc.test:8101", "deny"),
        ("svc.test:53/udp", "allow"),
        ("svc.test:53", "deny"),
        ("all.test:1", "allow"),
    ],
)
def test_ports_and_protocols_are_exact(to: str, verdict: str) -> None:
    """One port, a range, all of them, UDP only where it is written."""
    allow = ("svc.test:443", "svc.test:8000-8100", "svc.test:53/udp", "all.test:*")
    assert ask(to, allow=allow).verdict == verdict


def test_deny_beats_escalate_beats_allow_in_any_order() -> None:
    """The three lists over one name."""
    entry = ("a.test:443",)
    assert ask("a.test", allow=entry).verdict == "allow"
    assert ask("a.test", allow=entry, escalate=entry).verdict == "escalate"
    assert ask("a.test", allow=entry, escalate=entry, deny=entry).verdict == "deny"
    assert ask("b.test", allow=entry, escalate=("*:443",)).verdict == "escalate"
    denied = ask("a.b.test", allow=True, deny=("*.b.test:443",))
    assert (denied.verdict, denied.rule) == ("deny", "$.net.deny[0]")


@pytest.mark.parametrize("to", ["10.0.0.5:443", "127.0.0.1:443", "[::1]:443", "localhost:443"])
@pytest.mark.parametrize("allow", ["*:443", "public:443", "*.test:443"])
def test_no_name_grants_a_private_address(to: str, allow: str) -> None:
    """Only the literal address, its network or ``private`` does."""
    decision = ask(to, allow=(allow,))
    assert (decision.verdict, decision.code) == ("deny", "net.private")


@pytest.mark.parametrize(
    ("to", "allow"),
    [
        ("10.0.0.5:443", "10.0.0.5:443"),
        ("10.0.0.5:443", "10.0.0.0/8:443"),
        ("10.0.0.5:443", "private:443"),
        ("127.0.0.1:443", "127.0.0.1:443"),
        ("localhost:443", "127.0.0.1:443"),
        ("[::1]:443", "[::1]:443"),
        ("[fd00::5]:443", "[fd00::/8]:443"),
        ("[::ffff:10.0.0.5]:443", "10.0.0.0/8:443"),
        ("8.8.8.8:443", "public:443"),
        ("8.8.8.8:443", "0.0.0.0/0:443"),
        ("[64:ff9b::808:808]:443", "8.8.8.8:443"),
    ],
)
def test_literal_entries_grant_addresses(to: str, allow: str) -> None:
    """The positive twins: the address itself, its network, its class, also when wrapped."""
    assert ask(to, allow=(allow,)).verdict == "allow"


def test_a_name_is_no_address() -> None:
    """``*`` grants names only, a network addresses only."""
    assert ask("8.8.8.8:443", allow=("*:443",)).verdict == "deny"
    assert ask("dns.test:443", allow=("0.0.0.0/0:443",)).verdict == "deny"
    assert ask("dns.test:443", allow=("public:443",)).verdict == "allow"
    assert ask("dns.test:443", allow=("private:443",)).verdict == "deny"


METADATA = [
    "169.254.169.254", "[fd00:ec2::254]", "[fe80::1]", "100.100.100.200",
    "[::ffff:169.254.169.254]", "[64:ff9b::a9fe:a9fe]", "[::169.254.169.254]",
    "[2002:a9fe:a9fe::]",
]  # fmt: skip


@pytest.mark.parametrize("host", METADATA)
def test_no_broad_entry_grants_metadata(host: str) -> None:
    """Not the whole of IPv4 and IPv6, not ``private``, in no wrapping."""
    broad = ("0.0.0.0/0:80", "[::/0]:80", "private:80", "public:80", "*:80")
    decision = ask(f"{host}:80", allow=broad)
    assert (decision.verdict, decision.code) == ("deny", "net.private")
    assert ask(f"{host}:80", allow=("8.8.8.8:80",), escalate=broad).verdict == "deny"


def test_metadata_has_its_own_entry() -> None:
    """The literal address, or a network inside its range; and a broad deny still covers it."""
    to = "169.254.169.254:80"
    assert ask(to, allow=("169.254.169.254:80",)).verdict == "allow"
    assert ask(to, allow=("169.254.0.0/16:80",)).verdict == "allow"
    assert ask(to, allow=("169.254.0.0/16:80",), deny=("0.0.0.0/0:*",)).verdict == "deny"
    assert ask(to, allow=("169.254.0.0/16:80",), deny=("private:*",)).verdict == "deny"
    assert ask(to, allow=("169.254.0.0/16:80",), escalate=("0.0.0.0/0:*",)).verdict == "escalate"


@pytest.mark.parametrize(
    "host",
    ["2130706433", "0x7f.1", "127.1", "0", "１２７.0.0.1", "a..b", "127.0.0.1\0.ok.test",
     "ok.test%00", "http://ok.test", "user@ok.test", "ok.test\r\n", "fe80::1%eth0", ""],
)  # fmt: skip
def test_malformed_hosts_are_denied_whatever_the_policy(host: str) -> None:
    """Also with ``allow: true`` and without a block."""
    for policy in (Policy(), Policy(net=NetPolicy(allow=True))):
        decision = compile(policy).decide(ConnectRequest(host, 443))
        assert (decision.verdict, decision.code) == ("deny", "request.malformed")


@pytest.mark.parametrize("to", ["a.test:0", "a.test:65536", "a.test:x", "a.test:-1"])
def test_impossible_ports_are_malformed(to: str) -> None:
    """A port outside 1 to 65535 is not a destination."""
    assert ask(to, allow=True).code == "request.malformed"


def test_absent_empty_open_and_closed_differ() -> None:
    """Absent: no opinion. Empty: nothing. ``true``: anything. ``default: deny``: nothing."""
    assert compile(Policy()).decide(Request.connect("a.test")).verdict == "allow"
    assert ask("a.test").verdict == "deny"
    assert ask("10.0.0.1:22", allow=True).verdict == "allow"
    closed = compile(Policy(default="deny")).decide(Request.connect("a.test"))
    assert (closed.verdict, closed.layer) == ("deny", "default")


CLIENT: dict[str, Any] = {"shell": {"allow": True, "raw": True}, "net": {"allow": ["h.test:80"]}}


@pytest.mark.parametrize("words", ["localhost:3000", "http://127.0.0.1/", "http://[::1]:8/x"])
def test_the_loopback_of_a_box_is_its_own(words: str) -> None:
    """A program in a box may reach what runs in it; elsewhere the address is the machine's."""
    request = Request.process(["curl", words])
    boxed = compile(parse(CLIENT), boxed=BoxGrants())
    assert (boxed.decide(request).verdict, boxed.decide(request).layer) == ("allow", "policy")
    assert compile(parse(CLIENT)).decide(request).code == "net.private"
    assert boxed.decide(Request.process(["curl", "http://10.0.0.1/"])).code == "net.private"


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("curl $URL; true", "escalate"),
        ('curl "http://h.test/$P"; true', "escalate"),
        ("curl h.test | sort", "allow"),
        ("curl e.test | sort", "deny"),
        ('curl "$(cat url)"', "escalate"),
    ],
)
def test_a_destination_in_a_line_that_is_not_known(line: str, verdict: str) -> None:
    """A person is asked; with every destination open nobody needs to be."""
    assert compile(parse(CLIENT)).decide(Request.shell(line)).verdict == verdict
    anywhere = {"shell": {"allow": True, "raw": True}, "net": {"allow": True}}
    assert compile(parse(anywhere)).decide(Request.shell(line)).verdict == "allow"
    nothing_said = {"shell": {"allow": True, "raw": True}}
    assert compile(parse(nothing_said)).decide(Request.shell(line)).verdict == "allow"
