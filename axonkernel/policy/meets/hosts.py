"""The common part of two lists of destinations, entry by entry.

Every pair has an exact one: names and wildcards nest, networks nest, and ``public`` or
``private`` with a network is written out as smaller networks.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from functools import lru_cache
from ipaddress import ip_address, ip_network

from attrs import evolve

from axonkernel.policy.hosts import (
    Network,
    address_number,
    needs_own_entry,
    network_needs_own_entry,
    number_is_private,
    number_is_public,
    private_networks,
    public_networks,
)
from axonkernel.policy.match import Destination

__all__ = ["Met"]

_ORDER = ("name", "wildcard", "any", "ip", "cidr", "private", "public")


class Met:
    """One list of destinations, ready to be met with the entries of others.

    Arguments:
        covering: see :func:`~axonkernel.policy.meets.net.common_allow`.
    """

    def __init__(self, entries: Iterable[Destination], *, covering: bool) -> None:
        self._covering = covering
        self._named: dict[str, list[Destination]] = {}
        self._others: list[Destination] = []
        for entry in entries:
            if entry.kind == "name":
                self._named.setdefault(entry.host, []).append(entry)
            else:
                self._others.append(entry)

    def common(self, entry: Destination) -> Iterator[Destination]:
        """The destinations that the list and the entry both grant (or cover)."""
        for other in (*self._names(entry), *self._others):
            yield from _pair(entry, other, self._covering)

    def _names(self, entry: Destination) -> Iterable[Destination]:
        if entry.kind == "name":
            return self._named.get(entry.host, ())
        if entry.kind in ("wildcard", "any", "public"):
            return (each for entries in self._named.values() for each in entries)
        return ()


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
        network = _network(entry.host)
        inside = ip_address(address) in network
        return inside and (not own or network_needs_own_entry(network))
    if entry.kind == "private":
        return number_is_private(number) and not own
    return entry.kind == "public" and number_is_public(number)


def _networks(a: Destination, b: Destination, covering: bool) -> Iterator[Destination]:
    one, two = _network(a.host), _network(b.host)
    if one.version != two.version or not one.overlaps(two):
        return
    small, large = (a, b) if one.prefixlen >= two.prefixlen else (b, a)
    own = network_needs_own_entry(_network(small.host))
    if covering or not own or network_needs_own_entry(_network(large.host)):
        yield small


def _pieces(a: Destination, b: Destination, covering: bool) -> Iterator[Destination]:
    """The part of a network that ``public`` or ``private`` speaks of."""
    network = _network(a.host)
    if network_needs_own_entry(network):
        yield from [a] if b.kind == "private" and covering else []
        return
    for piece in _overlapping(network, _class_of(network.version, b.kind)):
        small = piece if piece.prefixlen >= network.prefixlen else network
        if covering or not network_needs_own_entry(small):
            yield _destination(a, small)


def _overlapping(network: Network, pieces: tuple[Network, ...]) -> Iterator[Network]:
    """Those of some sorted, disjoint networks that share an address with one."""
    first, last = int(network.network_address), int(network.broadcast_address)
    at = bisect_left(pieces, first, key=lambda each: int(each.broadcast_address))
    while at < len(pieces) and int(pieces[at].network_address) <= last:
        yield pieces[at]
        at += 1


def _destination(like: Destination, network: Network) -> Destination:
    if network.prefixlen == network.max_prefixlen:
        return evolve(like, kind="ip", host=str(network.network_address))
    return evolve(like, kind="cidr", host=str(network))


@lru_cache(maxsize=4096)
def _network(text: str) -> Network:
    return ip_network(text)


@lru_cache(maxsize=4)
def _class_of(version: int, kind: str) -> tuple[Network, ...]:
    """The networks of all ``public`` or ``private`` addresses, in their order."""
    networks = public_networks() if kind == "public" else private_networks()
    own = (each for each in networks if each.version == version)
    return tuple(sorted(own, key=lambda each: int(each.network_address)))
