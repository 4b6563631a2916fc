"""The host's own addresses: how they are read, and where the table of a box refuses them."""

from __future__ import annotations

from axonkernel.box import nft
from axonkernel.box.hosts_own import own_ipv4, own_ipv6
from axonkernel.box.model import NetPlan
from unit.box.test_nft import added, chain

TRIE = """Local:
  +-- 0.0.0.0/0 2 0 2
     |-- 45.90.11.77
        /32 host LOCAL
     +-- 127.0.0.0/8 2 0 2
        |-- 127.0.0.0
           /8 host LOCAL
     |-- 192.168.177.0
        /24 link UNICAST
     |-- 192.168.177.3
        /32 link BROADCAST
     |-- 203.0.113.0
        /24 host LOCAL
"""
INET6 = """2a0e97c0009100000000000000000077 01 80 00 80       lo
00000000000000000000000000000001 01 80 10 80       lo
"""


def test_local_routes_are_the_hosts_addresses_but_for_loopback() -> None:
    """Single ones and whole networks; neither neighbours nor broadcasts."""
    assert [*own_ipv4(TRIE.splitlines())] == ["45.90.11.77/32", "203.0.113.0/24"]
    assert [*own_ipv6(INET6.splitlines())] == ["2a0e:97c0:0091:0000:0000:0000:0000:0077/128"]


def test_they_are_refused_before_anything_that_grants_more_than_one_address() -> None:
    """Apart from entries that name one alone; with everything open they are as open."""
    own = ("45.90.11.77/32", "2a0e:97c0:91::77/128")
    net = NetPlan(allow=(("45.90.0.0/16", "tcp", "7"), ("45.90.11.77", "tcp", "7")), link="pasta")
    value = nft.ruleset(net, own)
    output = chain(value, "output")
    first = output.index("ip daddr @own4; ip daddr . l4proto . th dport != @lone4; goto refuse")
    assert output[first + 1] == "ip6 daddr @own6; goto refuse"
    assert first < output.index("ip daddr . l4proto . th dport @allow4; accept")
    assert added(value, "set")["lone4"]["elem"] == [{"concat": ["45.90.11.77", "tcp", 7]}]
    assert nft.ruleset(net._replace(open=True), own) == nft.ruleset(net._replace(open=True))
