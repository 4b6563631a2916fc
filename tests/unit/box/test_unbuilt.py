"""Fields that this version reads and has nothing to hold with are named, each by itself."""

from __future__ import annotations

from typing import Any

import pytest

from axonkernel.box.unbuilt import names_in, unbuilt, unreachable
from axonkernel.policy.model import Policy
from axonkernel.policy.parse import parse


def policy(data: dict[str, Any]) -> Policy:
    return parse(data, base="/ws", home="/home/ann", source="test").closed()


ADDRESS = {"allow": ["9.9.9.9:443"]}


@pytest.mark.parametrize(
    ("data", "field"),
    [
        ({"net": {**ADDRESS, "proxy": "https://9.9.9.9:3128"}}, "net.proxy"),
        ({"net": {**ADDRESS, "listen": [8080], "link": "veth"}}, "net.listen"),
        ({"box": {"noexec": True}, "fs": {"write": ["/"]}}, "box.noexec"),
    ],
    ids=str,
)
def test_each_is_named_alone(data: dict[str, Any], field: str) -> None:
    """With a word on what would hold it."""
    ((named, what),) = unbuilt(policy({"default": "deny", **data}))
    assert named == field and what


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"default": "deny"},
        {"net": {**ADDRESS, "tls_names": "off", "dns": "allowlist", "link": "pasta"}},
        {"net": {**ADDRESS, "link": "veth"}},
        {"net": {**ADDRESS, "tls_names": "check", "proxy": "http://9.9.9.9:3128"}},
        {"net": {"allow": True, "dns": "off"}},
        {"net": {**ADDRESS, "dns": "open", "resolver": "9.9.9.9"}},
        {"box": {"noexec": False, "devices": [], "nested_userns": True, "run_as": 7}},
        {"box": {"noexec": True, "devices": ["kvm"]}, "default": "deny"},
    ],
    ids=str,
)
def test_what_is_held_or_the_default_is_not(data: dict[str, Any]) -> None:
    """A field at its default asks for nothing."""
    assert tuple(unbuilt(policy(data))) == ()


def test_names_are_what_needs_a_resolver() -> None:
    """Not addresses, not all of it, not an absent block; only without one they open nothing."""
    allow = ["a.test:443", "9.9.9.9:1", "*.b.test:80", "10.0.0.0/8:1", "public:443"]
    net = policy({"net": {"allow": allow}}).net
    assert names_in(net) == ("a.test:443", "*.b.test:80")
    assert tuple(unreachable(net)) == ()
    off = policy({"net": {"allow": allow, "dns": "off"}}).net
    assert len(tuple(unreachable(off))) == 2
    for none in (None, policy({"net": {"allow": True}}).net, policy({"net": {}}).net):
        assert names_in(none) == () and tuple(unreachable(none)) == ()


@pytest.mark.parametrize(
    ("net", "said"),
    [
        ({"allow": ["a.test:22"], "tls_names": "check"}, "port 22"),
        ({"allow": ["*.a.test:80"], "tls_names": "check"}, "port 80"),
        ({"allow": ["a.test:443/udp"], "tls_names": "check"}, "by UDP"),
        ({"allow": ["a.test:53/udp"], "proxy": "http://p.test:1"}, "net.proxy"),
        ({"allow": True, "tls_names": "check"}, "compares nothing"),
        ({"allow": ["public:443"], "tls_names": "check"}, "no server name is compared"),
    ],
    ids=str,
)
def test_what_the_relay_takes_nowhere_is_told(net: dict[str, Any], said: str) -> None:
    """Names at ports where clients begin in clear, names by UDP, and a check of nothing."""
    (line,) = unreachable(policy({"net": net}).net)
    assert said in line


@pytest.mark.parametrize(
    "net",
    [
        {"allow": ["a.test:443", "9.9.9.9:80", "9.9.9.9:53/udp"], "tls_names": "check"},
        {"allow": ["a.test:1-65535", "*:8443"], "tls_names": "check"},
        {"allow": ["a.test:22", "a.test:80"], "proxy": "http://p.test:1"},
        {"allow": ["a.test:22", "a.test:443/udp"]},
    ],
    ids=str,
)
def test_what_the_relay_takes_is_not(net: dict[str, Any]) -> None:
    """TLS ports, addresses, all of a name's ports, and anything by a proxy alone."""
    assert tuple(unreachable(policy({"net": net}).net)) == ()
