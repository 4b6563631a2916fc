"""The table of a box and the mediator say the same of an address."""

from __future__ import annotations

from functools import cache
from ipaddress import ip_address, ip_network
from itertools import product
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axonkernel.box.caps import net_plan
from axonkernel.box.model import NetPlan
from axonkernel.policy.model import NetPolicy
from axonkernel.policy.parse import parse
from axonkernel.policy.request import ConnectRequest
from axonkernel.policy.rules.net import NetRules, canonical_target

#: Networks in one another, words, metadata in each of them; no name, which no address has.
PLACES = (
    "0.0.0.0/0", "45.90.0.0/16", "45.90.10.0/24", "45.90.10.1", "45.90.10.255",
    "10.0.0.0/8", "10.77.0.5", "169.0.0.0/8", "169.254.0.0/16", "169.254.169.254",
    "100.64.0.0/10", "100.100.100.200", "127.0.0.1", "[::]/0", "[2a0e:97c0:90::]/48",
    "[2a0e:97c0:90::1]", "[fd00::]/8", "[fd00:ec2::254]", "[fe80::]/10", "public", "private",
)  # fmt: skip
ADDRESSES = (
    "45.90.10.1", "45.90.10.255", "45.90.11.0", "8.8.8.8", "10.77.0.5", "10.255.255.255",
    "169.254.169.254", "169.253.255.255", "100.100.100.200", "100.100.100.201", "127.0.0.1",
    "2a0e:97c0:90::1", "2a0e:97c0:91::1", "fd00::1", "fd00:ec2::254", "fe80::1", "4000::1",
    "100::1", "2001:db8::1",
)  # fmt: skip
entry = st.builds(
    lambda place, ports, protocol: f"{place}:{ports}{protocol}",
    st.sampled_from(PLACES),
    st.sampled_from(["443", "80-443", "*"]),
    st.sampled_from(["", "/udp"]),
)
entries = st.lists(entry, max_size=3)
Protocol = Literal["tcp", "udp"]
protocols: Any = st.sampled_from(["tcp", "udp"])


def parsed(**net: Any) -> NetPolicy:
    found = parse({"net": net}, base="/ws", source="test").net
    assert found is not None
    return found


@cache
def ends(network: str) -> tuple[int, int, int]:
    """The version, first and last number of a network."""
    found = ip_network(network)
    return found.version, int(found.network_address), int(found.broadcast_address)


def let_through(plan: NetPlan, address: str, protocol: str, port: int) -> bool:
    """What the table does with the first packet to an address, in the order of its rules."""
    where = ip_address(address)
    version, number = where.version, int(where)

    def holds(triples: tuple[tuple[str, str, str], ...]) -> bool:
        for network, of, ports in triples:
            low, _, high = ports.partition("-")
            of_version, first, last = ends(network)
            inside = version == of_version and first <= number <= last
            if inside and of == protocol and int(low) <= port <= int(high or low):
                return True
        return False

    held = () if plan.ask is None else plan.ask.held
    return not holds(plan.deny) and not holds(held) and (plan.open or holds(plan.allow))


def agree(plan: NetPlan, rules: NetRules, address: str, protocol: Protocol, port: int) -> bool:
    """Whether allowed is let through, and denied and asked about are not."""
    request = ConnectRequest(address, port, protocol)
    verdict = rules.judge(request, canonical_target(address)).verdict
    return let_through(plan, address, protocol, port) == (verdict == "allow")


@pytest.mark.parametrize("other", ["deny", "escalate"])
def test_every_pair_of_entries(other: str) -> None:
    """Each place granted, by itself and with others denied or asked about; and everything."""
    grants: list[Any] = [True, *([f"{place}:443"] for place in PLACES)]
    seconds: list[list[str]] = [[], *([f"{place}:443"] for place in PLACES[::2])]
    let = 0
    for allow, second in product(grants, seconds):
        net = parsed(**{"allow": allow, other: second})
        plan, rules = net_plan(net), NetRules(net, layer="policy", absent="")
        for address in ADDRESSES:
            assert agree(plan, rules, address, "tcp", 443), (allow, second, address)
            let += let_through(plan, address, "tcp", 443)
    assert 0 < let < len(grants) * len(seconds) * len(ADDRESSES)


@given(
    st.one_of(st.just(True), entries), entries, entries,
    st.sampled_from(ADDRESSES), protocols, st.sampled_from([22, 80, 443]),
)  # fmt: skip
def test_ports_and_protocols(
    allow: list[str] | Literal[True],
    deny: list[str],
    escalate: list[str],
    address: str,
    protocol: Protocol,
    port: int,
) -> None:
    """Several entries of each kind, of ranges of ports and of both protocols."""
    net = parsed(allow=allow, deny=deny, escalate=escalate)
    rules = NetRules(net, layer="policy", absent="")
    assert agree(net_plan(net), rules, address, protocol, port)
