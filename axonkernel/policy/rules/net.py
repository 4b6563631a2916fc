"""Destinations: names, addresses and networks, each with ports and a protocol.

A name never grants a private address, and no broad entry grants a link-local or metadata
address: only the literal address, a network inside that range, or ``private`` does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_network

from axonkernel.policy.hosts import (
    Number,
    address_number,
    bases,
    canonical_host,
    needs_own_entry,
    network_needs_own_entry,
    number_is_private,
    number_is_public,
    parse_ipv6,
    unwrap,
)
from axonkernel.policy.match import Destination, parse_destination
from axonkernel.policy.model import NetPolicy, Verdict
from axonkernel.policy.request import ConnectRequest, Decision, Match
from axonkernel.policy.tables import Ports, Rule, rules

__all__ = ["HostTable", "NetRules", "canonical_target", "is_loopback"]

Target = tuple[str, Number | None]


def canonical_target(host: str) -> Target:
    """A requested host, and its address when it is one. A name comes in its one spelling.

    ``localhost`` is judged as the loopback address it stands for. Raises ValueError.
    """
    if ":" in host:
        address = unwrap(parse_ipv6(host))
        return str(address) if address.version == 4 else host, (address.version, int(address))
    name = canonical_host(host)
    if name == "localhost" or name.endswith(".localhost"):
        name = "127.0.0.1"
    return name, address_number(name)


def is_loopback(target: Target) -> bool:
    """Whether a target is the machine itself, or the box itself from inside of one."""
    ip = target[1]
    return ip is not None and (ip == (6, 1) or (ip[0] == 4 and ip[1] >> 24 == 127))


class HostTable:
    """One list of destinations."""

    def __init__(self, lines: Iterable[Rule]) -> None:
        self._names: dict[str, Ports] = {}
        self._addresses: dict[Number | None, Ports] = {}
        self._bases: dict[str, Ports] = {}
        self._words: dict[str, Ports] = {}
        self._networks: dict[tuple[int, int], dict[int, Ports]] = {}
        self._own_networks: dict[tuple[int, int], dict[int, Ports]] = {}
        self.any = False
        for rule in lines:
            self.any = True
            entry = parse_destination(rule.text)
            self._ports(entry).add(entry.low, entry.high, entry.protocol, rule)

    def _ports(self, entry: Destination) -> Ports:
        if entry.kind == "name":
            return self._names.setdefault(entry.host, Ports())
        if entry.kind == "ip":
            return self._addresses.setdefault(address_number(entry.host), Ports())
        if entry.kind == "wildcard":
            return self._bases.setdefault(entry.host[2:], Ports())
        if entry.kind != "cidr":
            return self._words.setdefault(entry.host, Ports())
        network = ip_network(entry.host)
        own = network_needs_own_entry(network)
        table = self._own_networks if own else self._networks
        shift = network.max_prefixlen - network.prefixlen
        bucket = table.setdefault((network.version, shift), {})
        return bucket.setdefault(int(network.network_address) >> shift, Ports())

    def covering(self, target: Target, port: int, protocol: str) -> list[Rule]:
        """The rules that speak of a target at all."""
        if not self.any:
            return []
        name, ip = target
        found = self._named(name) if ip is None else self._addressed(ip)
        return _with_port(found, port, protocol)

    def granting(self, target: Target, port: int, protocol: str) -> list[Rule]:
        """The rules narrow enough to grant a target."""
        ip = target[1]
        if not self.any or ip is None or not needs_own_entry(ip):
            return self.covering(target, port, protocol)
        return _with_port(self._own(ip), port, protocol)

    def _named(self, name: str) -> list[Ports]:
        """What speaks of a host name. ``public`` does, ``private`` never."""
        found = [ports] if (ports := self._names.get(name)) else []
        if self._bases:
            found += [ports for base in bases(name) if (ports := self._bases.get(base))]
        for word in ("*", "public") if self._words else ():
            if ports := self._words.get(word):
                found.append(ports)
        return found

    def _addressed(self, ip: Number) -> list[Ports]:
        """What speaks of an address: itself, a network, or its class."""
        found = self._own(ip) + _in_networks(self._networks, ip)
        if self._words:
            word = "private" if number_is_private(ip) else "public" if number_is_public(ip) else ""
            if ports := self._words.get(word):
                found.append(ports)
        return found

    def _own(self, ip: Number) -> list[Ports]:
        """What is narrow enough to speak of a link-local or metadata address."""
        found = [ports] if (ports := self._addresses.get(ip)) else []
        return found + _in_networks(self._own_networks, ip)


def _in_networks(table: dict[tuple[int, int], dict[int, Ports]], ip: Number) -> list[Ports]:
    own_version, number = ip
    return [
        ports
        for (version, shift), bucket in table.items()
        if version == own_version and (ports := bucket.get(number >> shift))
    ]


def _with_port(found: list[Ports], port: int, protocol: str) -> list[Rule]:
    return [rule for ports in found for rule in ports.find(port, protocol)]


class NetRules:
    """The ``net`` block as tables."""

    def __init__(self, net: NetPolicy, *, layer: str, absent: str) -> None:
        self._layer = layer
        self._absent = absent
        self._open = net.allow is True
        self.allow = HostTable(rules("$.net.allow", () if net.allow is True else net.allow))
        self._deny = HostTable(rules("$.net.deny", net.deny))
        self._escalate = HostTable(rules("$.net.escalate", net.escalate))
        #: Whether any destination is allowed.
        self.unrestricted = self._open and not self._deny.any and not self._escalate.any

    def judge(self, request: ConnectRequest, target: Target) -> Decision:
        """The verdict on a target from :func:`canonical_target`."""
        port, protocol = request.port, request.protocol
        subject = f"{target[0]}:{port}"
        if denied := self._deny.covering(target, port, protocol):
            return Decision("deny", "net.host", min(denied).path, self._layer, subject)
        granted = self._granted(target, port, protocol)
        if asked := self._escalating(target, port, protocol, bool(granted)):
            return Decision("escalate", "net.host", min(asked).path, self._layer, subject)
        if granted:
            return Decision("allow", "net.host", min(granted).path, self._layer, subject)
        return self._uncovered(target, subject)

    def judge_address(self, request: ConnectRequest, address: Target) -> Decision | None:
        """The denial of an address that a granted name was resolved to, or None.

        A private one needs its own grant, and a denied one stays denied.
        """
        port, protocol = request.port, request.protocol
        subject = f"{address[0]}:{port}"
        if denied := self._deny.covering(address, port, protocol):
            return Decision("deny", "net.host", min(denied).path, self._layer, subject)
        ip = address[1]
        if ip is not None and number_is_public(ip):
            return None
        if self._granted(address, port, protocol):
            return None
        return self._uncovered(address, subject)

    def _granted(self, target: Target, port: int, protocol: str) -> list[Rule]:
        return [_OPEN] if self._open else self.allow.granting(target, port, protocol)

    def _escalating(self, target: Target, port: int, protocol: str, granted: bool) -> list[Rule]:
        """The rules that ask a human: a broad one asks about all that is granted, but
        offers nothing that a broad grant would not."""
        if granted:
            return self._escalate.covering(target, port, protocol)
        return self._escalate.granting(target, port, protocol)

    def _uncovered(self, target: Target, subject: str) -> Decision:
        ip = target[1]
        code = "net.host" if ip is None or number_is_public(ip) else "net.private"
        if self._absent:
            return Decision("deny", code, "$.default", "default", subject, self._absent)
        return Decision("deny", code, "$.net.allow", self._layer, subject, "no entry covers it")

    def matches(self, request: ConnectRequest, target: Target) -> Iterator[Match]:
        """Every rule about a target."""
        port, protocol = request.port, request.protocol
        granted = self._granted(target, port, protocol)
        lists: tuple[tuple[Verdict, list[Rule]], ...] = (
            ("deny", self._deny.covering(target, port, protocol)),
            ("escalate", self._escalating(target, port, protocol, bool(granted))),
            ("allow", granted),
        )
        for verdict, found in lists:
            yield from (Match(verdict, rule.path, rule.text) for rule in found)


_OPEN = Rule(0, "$.net.allow", "true")
