"""Destinations as elements of nftables interval sets: never overlapping.

The kernel refuses overlapping elements of a concatenated interval set, while a policy may well
name a network, a part of it, and ports of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from axonkernel.typed import Any

__all__ = ["bare", "disjoint", "family"]

_Triple = tuple[str, str, str]
_Pair = tuple[int, int]


def family(address: str) -> str:
    """``"6"`` or ``"4"``: what the names of the sets for an address or CIDR end in."""
    return "6" if ":" in address else "4"


def disjoint(triples: Iterable[_Triple], of: str) -> list[Any]:
    """Set elements that cover the ``(address or CIDR, protocol, ports)`` of one family.

    Two CIDRs are nested or apart, so it is enough to take from each the ports that its
    supernets already have.
    """
    wanted = [triple for triple in triples if family(triple[0]) == of]
    if not wanted:
        return []
    from ipaddress import ip_network

    ports: dict[tuple[Any, str], list[_Pair]] = {}
    for address, protocol, port in wanted:
        low, _, high = port.partition("-")
        pair = (int(low), int(high or low))
        ports.setdefault((ip_network(address), protocol), []).append(pair)
    lengths = {network.prefixlen for network, _ in ports}
    elements: list[Any] = []
    for network, protocol in sorted(ports):
        above = [network.supernet(new_prefix=n) for n in lengths if n < network.prefixlen]
        covered = [pair for wider in above for pair in ports.get((wider, protocol), ())]
        for low_port, high_port in _without(ports[network, protocol], covered):
            span = _range(low_port, high_port)
            elements.append({"concat": [_network(network), protocol, span]})
    return elements


def _without(pairs: list[_Pair], covered: list[_Pair]) -> Iterator[_Pair]:
    """The ports of ``pairs`` that are not in ``covered``, as ascending ranges apart."""
    done = -1
    for low, high in sorted(pairs):
        low = max(low, done + 1)
        for start, end in sorted(covered):
            if low <= high and start <= high and end >= low:
                if low < start:
                    yield low, start - 1
                low = end + 1
        if low <= high:
            yield low, high
        done = max(done, high)


def bare(triples: Iterable[_Triple], of: str) -> list[Any]:
    """Set elements that cover the addresses alone, of one family."""
    from ipaddress import collapse_addresses, ip_network

    wanted: Any = (ip_network(a) for a, _, _ in triples if family(a) == of)
    return [_network(network) for network in collapse_addresses(wanted)]


def _network(network: Any) -> Any:
    if network.prefixlen == network.max_prefixlen:
        return str(network.network_address)
    return {"prefix": {"addr": str(network.network_address), "len": network.prefixlen}}


def _range(low: int, high: int) -> Any:
    return low if low == high else {"range": [low, high]}
