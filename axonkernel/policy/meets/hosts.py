"""The common part of two lists of destinations, entry by entry.

Every pair has an exact one: names and wildcards nest, networks nest, and ``public`` or
``private`` with a network is written out as smaller networks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network, summarize_address_range

from attrs import evolve

from axonkernel.policy.hosts import (
    Network,
    address_number,
    needs_own_entry,
    network_needs_own_entry,
    number_is_private,
    private_networks,
    wrapping_networks,
)
from axonkernel.policy.match import Destination

__all__ = ["common"]

_ORDER = ("name", "wildcard", "any", "ip", "cidr", "private", "public")


def common(
    one: Iterable[Destination], two: Iterable[Destination], *, covering: bool
) -> Iterator[Destination]:
    """The destinations that both lists grant (or cover, see :func:`common_allow`)."""
    named: dict[str, list[Destination]] = {}
    others: list[Destination] = []
    for entry in two:
        if entry.kind == "name":
            named.setdefault(entry.host, []).append(entry)
        else:
            others.append(entry)
    for entry in one:
        if entry.kind == "name":
            candidates = named.get(entry.host, [])
        elif entry.kind in ("wildcard", "any", "public"):
            candidates = [each for entries in named.values() for each in entries]
        else:
            candidates = []
        for other in (*candidates, *others):
            yield from _pair(entry, other, covering)


def _pair(a: Destination, b: Destination, covering: bool) -> Iterator[Destination]:
    low, high = max(a.low, b.low), min(a.high, b.high)
    if a.protocol != b.protocol or low > high:
        return
    first, second = sorted((a, b), key=lambda entry: _ORDER.index(entry.kind))
    for entry in _hosts(first, second, covering):
        yield evolve(entry, low=low, high=high)


def _hosts(a: Destination, b: Destination, covering: bool) -> Iterator[Destination]:
    """The common hosts of two entries, the kind of ``a`` not after that of ``b``."""
    kinds = a.kind, b.kind
    if (a.kind, a.host) == (b.kind, b.host):
        yield a
    elif kinds == ("name", "wildcard"):
        yield from [a] if a.host.endswith(b.host[1:]) else []
    elif kinds == ("wildcard", "wildcard"):
        yield from _nested(a, b)
    elif a.kind in ("name", "wildcard", "any") and b.kind in ("any", "public"):
        yield a
    elif a.kind == "ip":
        yield from [a] if _speaks_of(b, a.host, covering) else []
    elif kinds == ("cidr", "cidr"):
        yield from _networks(a, b, covering)
    elif a.kind == "cidr":
        yield from _pieces(a, b, covering)


def _nested(a: Destination, b: Destination) -> Iterator[Destination]:
    if a.host.endswith(b.host[1:]):
        yield a
    elif b.host.endswith(a.host[1:]):
        yield b


def _speaks_of(entry: Destination, address: str, covering: bool) -> bool:
    """Whether an entry grants (or covers) an address."""
    number = address_number(address)
    assert number is not None
    own = needs_own_entry(number) and not covering
    if entry.kind == "cidr":
        network = ip_network(entry.host)
        inside = ip_address(address) in network
        return inside and (not own or network_needs_own_entry(network))
    private = number_is_private(number)
    return (entry.kind == "private" and private and not own) or (
        entry.kind == "public" and not private
    )


def _networks(a: Destination, b: Destination, covering: bool) -> Iterator[Destination]:
    one, two = ip_network(a.host), ip_network(b.host)
    if one.version != two.version or not one.overlaps(two):
        return
    small, large = (a, b) if one.prefixlen >= two.prefixlen else (b, a)
    own = network_needs_own_entry(ip_network(small.host))
    if covering or not own or network_needs_own_entry(ip_network(large.host)):
        yield small


def _pieces(a: Destination, b: Destination, covering: bool) -> Iterator[Destination]:
    """The part of a network that ``public`` or ``private`` speaks of."""
    network = ip_network(a.host)
    if network_needs_own_entry(network):
        yield from [a] if b.kind == "private" and covering else []
        return
    for piece in _public(network.version) if b.kind == "public" else private_networks():
        if piece.version != network.version or not piece.overlaps(network):
            continue
        small = piece if piece.prefixlen >= network.prefixlen else network
        if covering or not network_needs_own_entry(small):
            yield _destination(a, small)


def _destination(like: Destination, network: Network) -> Destination:
    if network.prefixlen == network.max_prefixlen:
        return evolve(like, kind="ip", host=str(network.network_address))
    return evolve(like, kind="cidr", host=str(network))


@lru_cache(maxsize=2)
def _public(version: int) -> tuple[Network, ...]:
    """What is neither private nor IPv4 in disguise, as networks."""
    found: list[Network] = []
    at, last = 0, (1 << (32 if version == 4 else 128)) - 1
    others = (*private_networks(), *wrapping_networks())
    taken = [each for each in others if each.version == version]
    for network in sorted(taken, key=lambda each: int(each.network_address)):
        found += _between(version, at, int(network.network_address) - 1)
        at = max(at, int(network.broadcast_address) + 1)
    return (*found, *_between(version, at, last))


def _between(version: int, first: int, last: int) -> Iterator[Network]:
    if first > last:
        return
    if version == 4:
        yield from summarize_address_range(IPv4Address(first), IPv4Address(last))
    else:
        yield from summarize_address_range(IPv6Address(first), IPv6Address(last))
