"""NetPlan + what the host's network is -> a veth link, its host-side tables and switches.

Pure: addresses, rules and switches are values; ``veth.py`` makes them. The box's own table
(``nft.py``) decides what the box may reach; the tables here take the box's packets out and keep
the host itself, other boxes and everything inbound away.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from ipaddress import IPv4Network, ip_address, ip_network
from typing import Any, NamedTuple

from axonkernel.box.intervals import disjoint, family
from axonkernel.box.model import NetPlan
from axonkernel.box.rules import (
    ACCEPT,
    DROP,
    KNOWN,
    NEIGHBOURS,
    REJECT,
    RESET,
    Json,
    destination,
    match,
    meta,
    payload,
)
from axonkernel.errors import BoxError

__all__ = [
    "BOX_LINK",
    "GUARD",
    "ID_LENGTH",
    "HostNetwork",
    "Switch",
    "VethPlan",
    "guard_table",
    "host_table",
    "removal",
    "switches",
    "veth_plan",
]

#: What the link is called in the box.
BOX_LINK = "eth0"
#: An id is so many hexadecimal digits: 40 bits, as RFC 4193 wants for a private IPv6 network.
ID_LENGTH = 10
#: The table that keeps what :func:`switches` opened to the boxes alone.
GUARD = "axonkernel-forward"
#: Where a box's four addresses are taken from: the less usual corners of RFC 1918, then of what
#: RFC 2544 keeps for measurements.
_POOLS = ("10.213.0.0/16", "172.29.0.0/16", "192.168.213.0/24", "198.18.213.0/24")
_WIDEST = 8
_LEAST_MTU, _USUAL_MTU = 1280, 1500  # the first: IPv6 works on nothing smaller
_IPS = {"4": "ip", "6": "ip6"}
_SOURCE_NAT = 100


class HostNetwork(NamedTuple):
    """What matters of the network of the host.

    Arguments:
        networks: CIDRs of its addresses and routes, but for default routes.
        uplinks: family digit to the interfaces its routes go out by, ours and loopback left out.
        mtu: the smallest of those interfaces, in bytes; 0 without any.
    """

    networks: tuple[str, ...] = ()
    uplinks: tuple[tuple[str, tuple[str, ...]], ...] = ()
    mtu: int = 0


class VethPlan(NamedTuple):
    """One link: its names and, per family digit, (the host's end, the box's end, prefix length).

    ``named`` are the allowed triples that are one address each.
    """

    id: str
    mtu: int
    ends: tuple[tuple[str, str, str, int], ...]
    named: tuple[tuple[str, str, str], ...] = ()
    refuse: str = "reject"

    @property
    def link(self) -> str:
        """The interface on the host."""
        return f"axon{self.id}"

    @property
    def table(self) -> str:
        """The table on the host."""
        return f"axonkernel-{self.id}"


# -- addresses --------------------------------------------------------------------------


def veth_plan(net: NetPlan, host: HostNetwork, id: str) -> VethPlan:
    """A link for ``net``, of the families it needs and the host has.

    Arguments:
        id: :data:`ID_LENGTH` random hexadecimal digits.

    Raises BoxError when the host has no route of a needed family, or no free addresses.
    """
    by_name = net.open or net.names or net.asked
    wanted = {"4", "6"} if by_name else {family(address) for address, _, _ in net.allow}
    digits = sorted(wanted & {digit for digit, links in host.uplinks if links})
    if not digits:
        raise BoxError("link", "the host has no route to anything in net.allow")
    granted = [address for address, _, _ in net.allow]
    ends = {"4": lambda: _ends4(host.networks, granted, id), "6": lambda: _ends6(id)}
    return VethPlan(
        id,
        max(_LEAST_MTU, host.mtu) if host.mtu else _USUAL_MTU,
        tuple(ends[digit]() for digit in digits),
        tuple(triple for triple in net.allow if "/" not in triple[0]),
        net.refuse,
    )


def _ends4(taken: Iterable[str], granted: Iterable[str], id: str) -> tuple[str, str, str, int]:
    used = [each for each in map(ip_network, taken) if isinstance(each, IPv4Network)]
    # No pool is outside of a grant of everything; there it costs four addresses.
    wide = [each for each in map(ip_network, granted) if isinstance(each, IPv4Network)]
    used += [each for each in wide if each.prefixlen >= _WIDEST]
    for pool in map(IPv4Network, _POOLS):
        near = [network for network in used if network.overlaps(pool)]
        count = 0 if any(pool.subnet_of(each) for each in near) else pool.num_addresses // 4
        for step in range(count):
            # Boxes that start at once look in different places.
            first = pool.network_address + 4 * ((int(id, 16) + step) % count)
            free = IPv4Network((first, 30))
            if not any(free.overlaps(network) for network in near):
                return "4", str(free[1]), str(free[2]), 30
    raise BoxError("link", f"no four addresses are free in {', '.join(_POOLS)}")


def _ends6(id: str) -> tuple[str, str, str, int]:
    prefix = f"fd{id[:2]}:{id[2:6]}:{id[6:]}::"
    host, box = (str(ip_address(f"{prefix}{n}")) for n in (1, 2))
    return "6", host, box, 64


# -- tables -----------------------------------------------------------------------------


def host_table(plan: VethPlan) -> Json:
    """What the host does with packets of the box: masquerade them, and nothing else.

    Nothing begins towards the box. The host itself is reached only at an address of its own
    that a grant names alone (never at the addresses of the link); a network that happens to
    cover it is not enough.
    """
    name, comes, goes = plan.table, _interface("iifname", plan), _interface("oifname", plan)
    named = {digit: disjoint(plan.named, digit) for digit in _IPS}
    commands = [_table("create", name)]
    commands += [
        _add("set", name, name=f"named{digit}", flags=["interval"], elem=elements,
             type=[f"ipv{digit}_addr", "inet_proto", "inet_service"])
        for digit, elements in named.items() if elements
    ]  # fmt: skip
    commands += [_chain(name, hook, "filter", 0) for hook in ("input", "forward")]
    commands.append(_chain(name, "postrouting", "nat", _SOURCE_NAT))
    commands += [_rule(name, "input", comes, *rest) for rest in _input_rules(plan, named)]
    commands += [_rule(name, "forward", comes, *each, DROP) for each in _foreign_sources(plan)]
    commands.append(_rule(name, "forward", goes, KNOWN, ACCEPT))
    commands.append(_rule(name, "forward", goes, DROP))
    for digit, _, box, _ in plan.ends:
        source = match(payload(_IPS[digit], "saddr"), box)
        elsewhere = match(meta("oifname"), plan.link, "!=")
        commands.append(_rule(name, "postrouting", source, elsewhere, {"masquerade": None}))
    return {"nftables": commands}


def _input_rules(plan: VethPlan, named: Mapping[str, list[Any]]) -> Iterator[tuple[Json, ...]]:
    yield NEIGHBOURS, ACCEPT
    yield from ((*each, DROP) for each in _foreign_sources(plan))
    yield KNOWN, ACCEPT
    refuse = ((DROP,),) if plan.refuse == "drop" else (RESET, (REJECT,))
    for digit, host, _, _ in plan.ends:
        yield from ((match(payload(_IPS[digit], "daddr"), host), *each) for each in refuse)
        if named[digit]:
            yield match(destination(_IPS[digit]), f"@named{digit}"), ACCEPT
    yield from refuse


def _foreign_sources(plan: VethPlan) -> Iterator[tuple[Json, ...]]:
    """Packets that claim to come from someone else than the box, and families without a link."""
    boxes = {digit: box for digit, _, box, _ in plan.ends}
    for digit, ip in _IPS.items():
        if digit in boxes:
            yield (match(payload(ip, "saddr"), boxes[digit], "!="),)
        else:
            yield (match(meta("nfproto"), f"ipv{digit}"),)


def guard_table(changed: Iterable[Switch]) -> Json:
    """Let in by the interfaces that ``changed`` opened what belongs to a box, nothing new.

    Replaces the table when it is there. Without this the host would route for its neighbours.
    """
    commands = [_table("add", GUARD), _table("delete", GUARD), _table("add", GUARD)]
    commands.append(_chain(GUARD, "forward", "filter", 0))
    commands.append(_rule(GUARD, "forward", KNOWN, ACCEPT))
    commands.append(_rule(GUARD, "forward", match(meta("iifname"), "axon*"), ACCEPT))
    for switch in changed:
        found = _OPENED.fullmatch(switch.path)
        if found and switch.before != switch.after:
            digit, interface = found.groups()
            only = match(meta("nfproto"), f"ipv{digit}")
            by = () if interface == "all" else (match(meta("iifname"), interface),)
            commands.append(_rule(GUARD, "forward", only, *by, DROP))
    return {"nftables": commands}


def removal(table: str) -> Json:
    """Commands that remove a table, whether it is there or not."""
    return {"nftables": [_table("add", table), _table("delete", table)]}


def _table(verb: str, name: str) -> Json:
    return {verb: {"table": {"family": "inet", "name": name}}}


def _add(kind: str, table: str, **rest: Any) -> Json:
    return {"add": {kind: {"family": "inet", "table": table, **rest}}}


def _chain(table: str, hook: str, kind: str, priority: int) -> Json:
    return _add("chain", table, name=hook, type=kind, hook=hook, prio=priority, policy="accept")


def _rule(table: str, chain: str, *expr: Json) -> Json:
    return _add("rule", table, chain=chain, expr=list(expr))


def _interface(key: str, plan: VethPlan) -> Json:
    return match(meta(key), plan.link)


# -- switches ---------------------------------------------------------------------------


class Switch(NamedTuple):
    """A setting below /proc/sys/net that has to change, from one value to another."""

    path: str
    before: str
    after: str


_OPENED = re.compile(r"ipv([46])/conf/(.+)/(?:force_)?forwarding")


def switches(
    host: HostNetwork, digits: Iterable[str], values: Mapping[str, str]
) -> Iterator[Switch]:
    """The settings without which the host forwards nothing, in the order to make them.

    Per interface where the kernel can (IPv4; IPv6 since Linux 6.17), because the switch for all
    of them changes much else: it turns off what the host learns from routers. Before that kernel
    the settings it would change come first, so that they can be put back after it.

    Arguments:
        digits: the families to forward.
        values: path below /proc/sys/net to its value now, without those that do not exist.
    """
    uplinks = dict(host.uplinks)
    if "4" in digits and values.get("ipv4/ip_forward") == "0":
        paths = [f"ipv4/conf/{link}/forwarding" for link in uplinks["4"]]
        yield from (Switch(path, "0", "1") for path in paths if values.get(path) == "0")
    if "6" not in digits or values.get("ipv6/conf/all/forwarding") != "0":
        return
    forced = [f"ipv6/conf/{link}/force_forwarding" for link in uplinks["6"]]
    if all(path in values for path in forced):
        yield from (Switch(path, "0", "1") for path in forced if values[path] == "0")
        return
    for path, value in sorted(values.items()):
        if path.startswith("ipv6/conf/") and not path.startswith("ipv6/conf/all/"):
            if path.endswith("/forwarding") and value == "1":
                yield Switch(path, "1", "1")
            elif path.endswith("/accept_ra") and value == "1":
                yield Switch(path, "1", "2")
    yield Switch("ipv6/conf/all/forwarding", "0", "1")
