"""Which of the addresses a name leads to may be reached (pure).

A name never grants a private address, whatever its owner answers: only a literal grant of that
very address does, which the table holds already. What is denied stays denied.
"""

from __future__ import annotations

from collections.abc import Iterable
from ipaddress import IPv6Address, ip_address, ip_network

from axonkernel.box.model import NetPlan
from axonkernel.box.resolver.spans import Span, less, meet, parse
from axonkernel.policy.hosts import Address, number_is_public, unwrap
from axonkernel.typed import NamedTuple

__all__ = ["Admission", "Verdict"]

_EVERYTHING = (Span("tcp", 1, 65535), Span("udp", 1, 65535))


class Verdict(NamedTuple):
    """What becomes of one address.

    Arguments:
        kept: it is in the answer.
        spans: the ports for which it goes into the sets.
    """

    kept: bool
    spans: tuple[Span, ...] = ()


class _Literals:
    """Literal destinations, and what they say of one address."""

    def __init__(self, triples: Iterable[tuple[str, str, str]]) -> None:
        self._spans: dict[int, list[tuple[int, int, Span]]] = {4: [], 6: []}
        for address, protocol, ports in triples:
            network = ip_network(address)
            ends = int(network.network_address), int(network.broadcast_address)
            self._spans[network.version].append((*ends, parse(protocol, ports)))

    def about(self, address: Address) -> list[Span]:
        number = int(address)
        found = self._spans[address.version]
        return [span for low, high, span in found if low <= number <= high]


class Admission:
    """The literal rules of a plan, as far as they matter for names."""

    def __init__(self, net: NetPlan) -> None:
        self._allow = _Literals(net.allow)
        self._deny = _Literals(net.deny)
        self._open = net.open

    def judge(
        self, text: str, spans: tuple[Span, ...], denied_by_name: Iterable[Span] = ()
    ) -> Verdict:
        """What becomes of the address ``text`` of a name that is granted for ``spans``.

        Arguments:
            denied_by_name: ports for which the name, or one that it stands for, is denied. Where
                a literal grant has the address at one of them, only silence keeps it away.
        """
        address = ip_address(text)
        if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
            return Verdict(False)  # on the wire it would be another: no resolver says this
        inner = unwrap(address)
        denied = {*self._deny.about(address), *self._deny.about(inner)}
        literal = {*self._allow.about(address)}
        if meet(_EVERYTHING if self._open else literal, denied_by_name):
            return Verdict(False)
        if not number_is_public((inner.version, int(inner))) and not self._open:
            return Verdict(any(True for _ in less(literal, denied)))
        left = tuple(less(spans, denied))
        return Verdict(bool(left), () if self._open else left)
