"""Ports of a protocol, as ranges, and what is left of some without others (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from axonkernel.typed import NamedTuple

__all__ = ["Span", "atoms", "less", "meet", "parse"]


class Span(NamedTuple):
    """Ports ``low`` to ``high`` of a protocol, both included."""

    protocol: str
    low: int
    high: int

    @property
    def text(self) -> str:
        """As it is written in a plan."""
        return f"{self.low}" if self.low == self.high else f"{self.low}-{self.high}"


def parse(protocol: str, ports: str) -> Span:
    """The span of a triple of a plan."""
    low, _, high = ports.partition("-")
    return Span(protocol, int(low), int(high or low))


def less(spans: Iterable[Span], others: Iterable[Span]) -> Iterator[Span]:
    """What of ``spans`` is in none of ``others``."""
    holes = list(others)
    for span in spans:
        low = span.low
        for hole in sorted(each for each in holes if each.protocol == span.protocol):
            if hole.high < low or hole.low > span.high:
                continue
            if hole.low > low:
                yield span._replace(low=low, high=hole.low - 1)
            low = hole.high + 1
        if low <= span.high:
            yield span._replace(low=low)


def meet(spans: Iterable[Span], others: Iterable[Span]) -> bool:
    """Whether a port is in one of both."""
    known = list(others)
    return any(
        a.protocol == b.protocol and a.low <= b.high and b.low <= a.high
        for a in spans
        for b in known
    )


def atoms(spans: Iterable[Span], edges: Iterable[Span]) -> Iterator[Span]:
    """``spans``, each once, cut wherever one of ``edges`` begins or ends.

    Cut by the same edges, any two spans are the same or have no port in common.
    """
    cuts: dict[str, set[int]] = {}
    for edge in edges:
        cuts.setdefault(edge.protocol, set()).update((edge.low, edge.high + 1))
    found = dict.fromkeys(
        piece for span in spans for piece in _cut(span, sorted(cuts.get(span.protocol, ())))
    )
    yield from found


def _cut(span: Span, cuts: list[int]) -> Iterator[Span]:
    low = span.low
    for cut in cuts:
        if low < cut <= span.high:
            yield span._replace(low=low, high=cut - 1)
            low = cut
    yield span._replace(low=low)
