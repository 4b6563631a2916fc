"""The filter of a box as a value: what it says, read without privilege."""

from __future__ import annotations

import ipaddress
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axonkernel.box import nft
from axonkernel.box.intervals import bare, disjoint
from axonkernel.box.model import NetPlan
from axonkernel.errors import BoxError, IsolationUnavailable


def shown(side: Any) -> str:
    match side:
        case {"meta": {"key": key}} | {"ct": {"key": key}}:
            return str(key)
        case {"payload": {"protocol": protocol, "field": field}}:
            return f"{protocol} {field}"
        case {"concat": parts}:
            return " . ".join(shown(part) for part in parts)
        case {"set": items} | list(items):
            return "{" + ",".join(items) + "}"
        case _:
            return str(side)


def statement(part: dict[str, Any]) -> str:
    match part:
        case {"match": {"op": op, "left": left, "right": right}}:
            operator = "" if op in ("==", "in") else f"{op} "
            return f"{shown(left)} {operator}{shown(right)}"
        case {"set": {"op": "add", "elem": elem, "set": name, "stmt": [{"counter": None}]}}:
            return f"add {name} {shown(elem)} counter"
        case {"goto": {"target": target}}:
            return f"goto {target}"
        case {"reject": {"type": kind, **rest}}:
            return " ".join(["reject", kind, *map(str, rest.values())])
        case {"redirect": {"port": port}}:
            return f"redirect {port}"
        case _:
            return next(iter(part))


def chain(value: dict[str, Any], name: str) -> list[str]:
    rules = [
        command["add"]["rule"] for command in value["nftables"] if "rule" in command.get("add", {})
    ]
    return ["; ".join(map(statement, rule["expr"])) for rule in rules if rule["chain"] == name]


def added(value: dict[str, Any], kind: str) -> dict[str, dict[str, Any]]:
    found = [
        command["add"][kind] for command in value["nftables"] if kind in command.get("add", {})
    ]
    return {item["name"]: item for item in found}


COLLECT = [
    "l4proto {tcp,udp}; add @refused4 ip daddr . l4proto . th dport counter",
    "l4proto != {tcp,udp}; add @refused4 ip daddr . l4proto . 0 counter",
    "l4proto {tcp,udp}; add @refused6 ip6 daddr . l4proto . th dport counter",
    "l4proto != {tcp,udp}; add @refused6 ip6 daddr . l4proto . 0 counter",
]


def test_without_a_link_only_loopback_is_open() -> None:
    """A box that may reach nothing: loopback, and everything else is refused and noted."""
    value = nft.ruleset(NetPlan())
    assert chain(value, "input") == ["iifname lo; accept", "state {established,related}; accept"]
    assert chain(value, "output") == [
        "oifname lo; accept",
        "state {established,related}; accept",
        "ip daddr . l4proto . th dport @allow4; accept",
        "ip6 daddr . l4proto . th dport @allow6; accept",
        "goto refuse",
    ]
    assert chain(value, "forward") == []
    assert chain(value, "refuse") == [
        *COLLECT,
        "l4proto tcp; reject tcp reset",
        "reject icmpx admin-prohibited",
    ]


def test_named_destinations_are_redirected() -> None:
    """TCP to them goes to the relay, whose own packets are marked; literal ones go straight;
    what is denied stays so for the relay too; nothing of the box itself leaves for a name."""
    literal = (("192.0.2.7", "tcp", "443"),)
    denied = (("192.0.2.8", "tcp", "443"),)
    value = nft.ruleset(NetPlan(allow=literal, deny=denied, link="pasta", relayed=True))
    assert {"named4", "named6"} <= added(value, "set").keys()
    assert added(value, "chain")["named"] == {
        "family": "inet", "table": "axon", "name": "named", "type": "nat", "hook": "output",
        "prio": -100, "policy": "accept",
    }  # fmt: skip
    assert chain(value, "named") == [
        "mark 1635282798; accept",
        "l4proto tcp; ip daddr . l4proto . th dport @allow4; accept",
        "l4proto tcp; ip daddr . l4proto . th dport @net4; accept",
        "l4proto tcp; ip daddr . l4proto . th dport @named4; redirect 1023",
        "l4proto tcp; ip6 daddr . l4proto . th dport @allow6; accept",
        "l4proto tcp; ip6 daddr . l4proto . th dport @named6; redirect 1023",
    ]
    output = chain(value, "output")
    assert output[:2] == ["oifname lo; accept", "status dnat; accept"]
    assert output.index("mark 1635282798; accept") > output.index(
        "ip daddr . l4proto . th dport @deny4; goto refuse"
    )
    assert not any("@named" in rule for rule in output)
    plain = nft.ruleset(NetPlan(allow=literal, deny=denied, link="pasta"))
    assert "named4" not in added(plain, "set")
    assert chain(plain, "named") == []
    assert set(chain(plain, "output")) == set(output) - {
        "status dnat; accept", "mark 1635282798; accept"
    }  # fmt: skip


def test_names_have_sets_for_ports_and_where_needed_for_ranges() -> None:
    """Both with timeouts; those of ranges only where a name is granted, or may be, for one."""
    ranged = ("*.wild.test", "tcp", "8000-8100")
    plain = nft.ruleset(NetPlan(names=(("api.test", "tcp", "443"),), link="pasta"))
    assert {"allow4", "allow6"} <= added(plain, "set").keys()
    assert not [name for name in added(plain, "set") if "span" in name]
    for net in (NetPlan(names=(ranged,), link="pasta"), NetPlan(asked=(ranged,), link="pasta")):
        value = nft.ruleset(net)
        assert added(value, "set")["allowspan6"]["flags"] == ["interval", "timeout"]
        assert added(value, "set")["allow6"]["flags"] == ["timeout"]
        assert "ip6 daddr . l4proto . th dport @allowspan6; accept" in chain(value, "output")
    relayed = NetPlan(names=(ranged,), relayed=True, link="pasta")
    value = nft.ruleset(relayed)
    assert "namedspan4" in added(value, "set") and "allowspan4" not in added(value, "set")
    wanted = "l4proto tcp; ip daddr . l4proto . th dport @namedspan4; redirect 1023"
    assert wanted in chain(value, "named")
    assert nft.named_set(relayed, "tcp", "8000-8100") == "namedspan"
    assert nft.named_set(relayed, "udp", "443") == "allow"


@pytest.mark.parametrize("net", [NetPlan(), NetPlan(open=True, link="pasta")])
def test_every_hook_of_both_families_drops_by_default(net: NetPlan) -> None:
    """One inet table, so IPv6 is walled as IPv4 is."""
    value = nft.ruleset(net)
    chains = added(value, "chain")
    policies = {name: item.get("policy") for name, item in chains.items()}
    assert policies == {"refuse": None, "input": "drop", "output": "drop", "forward": "drop"}
    assert {item["family"] for item in chains.values()} == {"inet"}


def test_literal_destinations_lie_in_interval_sets_and_deny_comes_first() -> None:
    """Literals never share a set with elements that expire; a deny is looked up before them."""
    value = nft.ruleset(
        NetPlan(
            allow=(("203.0.113.0/24", "tcp", "443"), ("2001:db8::1", "udp", "53-54")),
            deny=(("203.0.113.9", "tcp", "443"),),
            link="pasta",
        )
    )
    sets = added(value, "set")
    assert sets["net4"]["elem"] == [
        {"concat": [{"prefix": {"addr": "203.0.113.0", "len": 24}}, "tcp", 443]}
    ]
    assert sets["net6"]["elem"] == [{"concat": ["2001:db8::1", "udp", {"range": [53, 54]}]}]
    assert sets["deny4"]["elem"] == [{"concat": ["203.0.113.9", "tcp", 443]}]
    assert "elem" not in sets["allow4"]
    assert chain(value, "output") == [
        "oifname lo; accept",
        "state {established,related}; accept",
        "ip daddr . l4proto . th dport @deny4; goto refuse",
        "icmpv6 type {nd-neighbor-solicit,nd-neighbor-advert}; accept",
        "icmpv6 type {nd-router-solicit,mld2-listener-report}; drop",
        "l4proto igmp; drop",
        "ip daddr . l4proto . th dport @allow4; accept",
        "ip6 daddr . l4proto . th dport @allow6; accept",
        "ip daddr . l4proto . th dport @net4; accept",
        "ip6 daddr . l4proto . th dport @net6; accept",
        "goto refuse",
    ]


def test_an_open_net_still_refuses_what_deny_names_over_every_protocol() -> None:
    """``allow: true`` with a deny: the ports by tcp and udp, the address by anything else."""
    value = nft.ruleset(NetPlan(deny=(("169.254.0.0/16", "tcp", "80"),), open=True, link="pasta"))
    assert chain(value, "output")[-3:] == [
        "l4proto igmp; drop",
        "l4proto != {tcp,udp}; ip daddr @bare4; goto refuse",
        "accept",
    ]
    assert "ip daddr . l4proto . th dport @deny4; goto refuse" in chain(value, "output")
    assert added(value, "set")["bare4"]["elem"] == [{"prefix": {"addr": "169.254.0.0", "len": 16}}]


def test_drop_is_silent() -> None:
    """``net.refuse: drop`` notes the packet and answers nothing."""
    assert chain(nft.ruleset(NetPlan(refuse="drop")), "refuse") == [*COLLECT, "drop"]


def test_the_set_of_refused_destinations_is_bounded() -> None:
    """A scan from inside cannot grow kernel memory."""
    sets = added(nft.ruleset(NetPlan()), "set")
    assert {sets["refused4"]["size"], sets["refused6"]["size"]} == {nft.REFUSED_SIZE}


def test_the_value_is_json_and_the_same_every_time() -> None:
    """One policy, one value: the order of its lines does not matter."""
    triples = (("10.0.0.0/8", "tcp", "1-9"), ("10.1.0.0/16", "tcp", "5-20"), ("::1", "udp", "7"))
    one = json.dumps(nft.ruleset(NetPlan(allow=triples)))
    other = json.dumps(nft.ruleset(NetPlan(allow=triples[::-1])))
    assert one == other


ports = st.tuples(st.integers(0, 12), st.integers(0, 6)).map(lambda p: (p[0], p[0] + p[1]))
networks = st.tuples(st.integers(0, 15), st.integers(28, 32)).map(
    lambda n: ipaddress.ip_network((0x0A000000 + n[0], n[1]), strict=False)
)
triple = st.tuples(networks, st.sampled_from(["tcp", "udp"]), ports)


def covered(elements: list[Any]) -> list[tuple[str, str, int]]:
    """Every single destination of the elements, with repeats."""
    found = []
    for element in elements:
        where, protocol, port = element["concat"]
        if isinstance(where, dict):
            where = f"{where['prefix']['addr']}/{where['prefix']['len']}"
        low, high = port["range"] if isinstance(port, dict) else (port, port)
        found += [
            (str(address), protocol, number)
            for address in ipaddress.ip_network(where)
            for number in range(low, high + 1)
        ]
    return found


@given(st.lists(triple, max_size=8))
def test_elements_cover_exactly_what_was_asked_without_overlap(wanted: list[Any]) -> None:
    """Nested networks and crossing port ranges: the same destinations, each in one element."""
    triples = [(str(n), protocol, f"{low}-{high}") for n, protocol, (low, high) in wanted]
    asked = {
        (str(address), protocol, number)
        for network, protocol, (low, high) in wanted
        for address in network
        for number in range(low, high + 1)
    }
    got = covered(disjoint(triples, "4"))
    assert len(got) == len(set(got))
    assert set(got) == asked


def test_bare_addresses_are_merged() -> None:
    """A network and a part of it are one element, or the kernel would refuse them."""
    triples = [("10.0.0.0/8", "tcp", "1"), ("10.9.0.0/16", "udp", "2"), ("fd00::/8", "tcp", "1")]
    assert bare(triples, "4") == [{"prefix": {"addr": "10.0.0.0", "len": 8}}]
    assert bare(triples, "6") == [{"prefix": {"addr": "fd00::", "len": 8}}]


class Spy:
    """Stands in for a transport: keeps what was sent, answers as told."""

    def __init__(self, code: int = 0, out: str = "", err: str = "") -> None:
        self.sent: list[Any] = []
        self.answer = (code, out, err)

    def __call__(self, text: str) -> tuple[int, str, str]:
        self.sent.append(json.loads(text))
        return self.answer


def test_the_binding_is_used_first_then_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two transports, one value: what is sent does not depend on which carries it."""
    binding, program = Spy(), Spy()
    monkeypatch.setattr(nft, "_program", lambda: program)
    for transport in (binding, None):
        monkeypatch.setattr(nft, "_binding", lambda found=transport: found)
        nft.load(nft.ruleset(NetPlan()))
    assert binding.sent == program.sent == [nft.ruleset(NetPlan())]


def test_neither_binding_nor_program_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing to load the table with: the declared field, the piece, the command."""
    monkeypatch.setattr(nft, "_binding", lambda: None)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(IsolationUnavailable, match="nftables") as caught:
        nft.load(nft.ruleset(NetPlan()))
    assert (caught.value.field, caught.value.missing) == ("net", "nft")


def test_a_refused_ruleset_is_a_box_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that did not load is never taken for a wall."""
    monkeypatch.setattr(nft, "_binding", lambda: Spy(-1, "", "Error: nope"))
    with pytest.raises(BoxError, match="nope") as caught:
        nft.load(nft.ruleset(NetPlan()))
    assert caught.value.stage == "table"


def test_an_added_element_is_renewed_in_one_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    """add, delete, add: old kernels do not renew a timeout by adding again."""
    spy = Spy()
    monkeypatch.setattr(nft, "_transport", spy)
    nft.add_elements([("2001:db8::1", "tcp", 443)], timeout_s=30)
    (sent,) = spy.sent
    assert [next(iter(command)) for command in sent["nftables"]] == ["add", "delete", "add"]
    element = sent["nftables"][0]["add"]["element"]
    assert element["name"] == "allow6"
    assert element["elem"] == [
        {"elem": {"val": {"concat": ["2001:db8::1", "tcp", 443]}, "timeout": 30}}
    ]
    nft.add_elements([("192.0.2.1", "tcp", "80-90")], 30, "allowspan")
    element = spy.sent[1]["nftables"][0]["add"]["element"]
    value = {"concat": ["192.0.2.1", "tcp", {"range": [80, 90]}]}
    assert (element["name"], element["elem"][0]["elem"]["val"]) == ("allowspan4", value)


def test_protocols_are_named_where_the_system_has_only_numbers() -> None:
    """Without /etc/protocols nft prints 17 for udp; with it, the name."""
    for printed in ("udp", "17", 17):
        value = {"concat": ["203.0.113.9", printed, 9]}
        item = {"elem": {"val": value, "counter": {"packets": 3, "bytes": 90}}}
        assert nft._refused(item) == ("203.0.113.9", "udp", 9, 3)
