"""A veth link as a value: its addresses, the host's tables for it, the settings it needs."""

from __future__ import annotations

from ipaddress import ip_address, ip_network
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axonkernel.box.model import NetPlan
from axonkernel.box.net import (
    GUARD,
    ID_LENGTH,
    HostNetwork,
    Switch,
    VethPlan,
    guard_table,
    host_table,
    removal,
    switches,
    veth_plan,
)
from axonkernel.errors import BoxError
from unit.box.test_nft import statement

ID = "0123456789"
BOTH = HostNetwork((), (("4", ("up0",)), ("6", ("up0", "up1"))), 1400)
FOUR = NetPlan(allow=(("9.9.9.9", "tcp", "443"),), link="veth")
SIX = NetPlan(allow=(("2620:fe::9", "udp", "53"),), link="veth")
OPEN = NetPlan(open=True, link="veth")


def digits(plan: VethPlan) -> list[str]:
    return [digit for digit, *_ in plan.ends]


def chain(value: dict[str, Any], name: str) -> list[str]:
    rules = [part["add"]["rule"] for part in value["nftables"] if "rule" in part.get("add", {})]
    return ["; ".join(map(statement, rule["expr"])) for rule in rules if rule["chain"] == name]


# -- addresses --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("net", "host", "expected"),
    [
        (FOUR, BOTH, ["4"]),
        (SIX, BOTH, ["6"]),
        (OPEN, BOTH, ["4", "6"]),
        (OPEN, BOTH._replace(uplinks=(("4", ("up0",)), ("6", ()))), ["4"]),
    ],
    ids=str,
)
def test_only_families_that_are_needed_and_there(
    net: NetPlan, host: HostNetwork, expected: list[str]
) -> None:
    """A grant of one family changes nothing of the other on the host."""
    assert digits(veth_plan(net, host, ID)) == expected


def test_without_a_way_out_there_is_no_link() -> None:
    """A host without any route, or without one of the only family that is granted."""
    for net, host in ((OPEN, HostNetwork()), (SIX, BOTH._replace(uplinks=(("4", ("up0",)),)))):
        with pytest.raises(BoxError, match="no route"):
            veth_plan(net, host, ID)


def test_the_ends_are_neighbours_and_private() -> None:
    """Two addresses of one small network each, of RFC 1918 and RFC 4193, never the outer two."""
    for _, host, box, length in veth_plan(OPEN, BOTH, ID).ends:
        network = ip_network(f"{host}/{length}", strict=False)
        assert ip_address(box) in network and box != host and network.is_private
        assert network.network_address not in map(ip_address, (host, box))
    assert ("6", "fd01:2345:6789::1", "fd01:2345:6789::2", 64) in veth_plan(OPEN, BOTH, ID).ends


@given(
    st.lists(
        st.builds(
            lambda address, length: str(ip_network((address, length), strict=False)),
            st.integers(0x0A000000, 0x0AFFFFFF) | st.integers(0xAC100000, 0xAC1FFFFF),
            st.integers(8, 32),
        ),
        max_size=30,
    ),
    st.text("0123456789abcdef", min_size=ID_LENGTH, max_size=ID_LENGTH),
)
def test_no_address_is_used_twice(taken: list[str], id: str) -> None:
    """Whatever the host has, the four addresses are outside of it; so is what is granted."""
    for host, net in (
        (BOTH._replace(networks=tuple(taken)), FOUR),
        (BOTH, NetPlan(allow=tuple((each, "tcp", "1") for each in taken) or FOUR.allow)),
    ):
        ((_, end, _, length),) = veth_plan(net, host, id).ends
        mine = ip_network(f"{end}/{length}", strict=False)
        assert not any(mine.overlaps(ip_network(each)) for each in taken)


def test_a_host_that_uses_all_is_told() -> None:
    """The pools are named."""
    used = ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "198.18.0.0/15")
    with pytest.raises(BoxError, match=r"10\.213"):
        veth_plan(FOUR, BOTH._replace(networks=used), ID)
    assert veth_plan(FOUR, BOTH._replace(networks=used[:3]), ID).ends[0][1].startswith("198.18.")


def test_everything_granted_leaves_room() -> None:
    """A grant of the whole of IPv4 covers every pool, and there is a link nevertheless."""
    wide = NetPlan(allow=(("0.0.0.0/0", "tcp", "443"),), link="veth")
    assert veth_plan(wide, BOTH, ID).ends


@pytest.mark.parametrize(("mtu", "expected"), [(1400, 1400), (9000, 9000), (576, 1280), (0, 1500)])
def test_packets_fit_the_way_out(mtu: int, expected: int) -> None:
    """The smallest uplink decides, down to what IPv6 needs."""
    assert veth_plan(OPEN, BOTH._replace(mtu=mtu), ID).mtu == expected


def test_names_tell_whose_they_are() -> None:
    """An interface name has at most 15 characters."""
    plan = veth_plan(OPEN, BOTH, ID)
    assert (plan.link, plan.table) == ("axon0123456789", "axonkernel-0123456789")
    assert len(plan.link) <= 15


# -- tables -----------------------------------------------------------------------------


def test_the_hosts_table() -> None:
    """Rule by rule: only the box's own address passes, nothing begins towards it, the host
    refuses what is not named."""
    plan = veth_plan(
        NetPlan(allow=(("9.9.9.9", "tcp", "443"), ("10.0.0.0/8", "tcp", "1"))), BOTH, ID
    )
    _, gateway, box, _ = plan.ends[0]
    value, ours = host_table(plan), "iifname axon0123456789"
    assert value["nftables"][0] == {"create": {"table": {"family": "inet", "name": plan.table}}}
    assert chain(value, "input") == [
        f"{ours}; icmpv6 type {{nd-neighbor-solicit,nd-neighbor-advert}}; accept",
        f"{ours}; ip saddr != {box}; drop",
        f"{ours}; nfproto ipv6; drop",
        f"{ours}; state {{established,related}}; accept",
        f"{ours}; ip daddr {gateway}; l4proto tcp; reject tcp reset",
        f"{ours}; ip daddr {gateway}; reject icmpx admin-prohibited",
        f"{ours}; ip daddr . l4proto . th dport @named4; accept",
        f"{ours}; l4proto tcp; reject tcp reset",
        f"{ours}; reject icmpx admin-prohibited",
    ]
    assert chain(value, "forward") == [
        f"{ours}; ip saddr != {box}; drop",
        f"{ours}; nfproto ipv6; drop",
        "oifname axon0123456789; state {established,related}; accept",
        "oifname axon0123456789; drop",
    ]
    assert chain(value, "postrouting") == [f"ip saddr {box}; oifname != axon0123456789; masquerade"]
    (named,) = [part["add"]["set"] for part in value["nftables"] if "set" in part.get("add", {})]
    assert named["elem"] == [{"concat": ["9.9.9.9", "tcp", 443]}]


def test_silence_is_kept_by_the_host_too() -> None:
    """``refuse = "drop"`` answers nowhere."""
    value = host_table(veth_plan(OPEN._replace(refuse="drop"), BOTH, ID))
    assert not [rule for rule in chain(value, "input") if "reject" in rule]


def test_the_guard_closes_what_was_opened() -> None:
    """New packets that come in by an interface whose setting changed; boxes' own go on."""
    changed = [
        Switch("ipv4/conf/up0/forwarding", "0", "1"),
        Switch("ipv6/conf/up1/force_forwarding", "0", "1"),
        Switch("ipv6/conf/kept0/forwarding", "1", "1"),
        Switch("ipv6/conf/up1/accept_ra", "1", "2"),
    ]
    assert chain(guard_table(changed), "forward") == [
        "state {established,related}; accept",
        "iifname axon*; accept",
        "nfproto ipv4; iifname up0; drop",
        "nfproto ipv6; iifname up1; drop",
    ]
    everything = guard_table([Switch("ipv6/conf/all/forwarding", "0", "1")])
    assert chain(everything, "forward")[2:] == ["nfproto ipv6; drop"]


def test_removing_needs_no_look() -> None:
    """A table that is not there is no error: it is added and deleted in one go."""
    assert [next(iter(part)) for part in removal(GUARD)["nftables"]] == ["add", "delete"]


# -- settings ---------------------------------------------------------------------------

OFF = {
    "ipv4/ip_forward": "0",
    "ipv4/conf/up0/forwarding": "0",
    "ipv4/conf/other0/forwarding": "0",
    "ipv6/conf/all/forwarding": "0",
    "ipv6/conf/all/accept_ra": "1",
    "ipv6/conf/default/accept_ra": "1",
    "ipv6/conf/up0/forwarding": "0",
    "ipv6/conf/up0/accept_ra": "1",
    "ipv6/conf/up1/forwarding": "1",
    "ipv6/conf/up1/accept_ra": "0",
}
FORCED = {f"ipv6/conf/{name}/force_forwarding": "0" for name in ("all", "up0", "up1", "other0")}


@pytest.mark.parametrize(
    ("wanted", "values", "expected"),
    [
        ("4", OFF, ["ipv4/conf/up0/forwarding 0 1"]),
        ("4", {**OFF, "ipv4/ip_forward": "1"}, []),
        ("4", {**OFF, "ipv4/conf/up0/forwarding": "1"}, []),
        ("6", {**OFF, "ipv6/conf/all/forwarding": "1"}, []),
        (
            "6",
            {**OFF, **FORCED},
            ["ipv6/conf/up0/force_forwarding 0 1", "ipv6/conf/up1/force_forwarding 0 1"],
        ),
        (
            "6",
            OFF,
            [
                "ipv6/conf/default/accept_ra 1 2",
                "ipv6/conf/up0/accept_ra 1 2",
                "ipv6/conf/up1/forwarding 1 1",
                "ipv6/conf/all/forwarding 0 1",
            ],
        ),
    ],
)
def test_the_least_is_switched(wanted: str, values: dict[str, str], expected: list[str]) -> None:
    """Nothing where the host forwards already, one interface where the kernel can, and before
    the switch for all what it would take along."""
    assert [" ".join(switch) for switch in switches(BOTH, wanted, values)] == expected
