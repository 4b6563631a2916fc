"""Lines of a policy and the plain tables they are found in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

__all__ = ["Ports", "Rule", "ancestors", "rules"]


class Rule(NamedTuple):
    """A line of the policy: its place in the list, its JSON path, its text."""

    order: int
    path: str
    text: str


def rules(path: str, texts: Iterable[str]) -> Iterator[Rule]:
    """The lines of one list, such as ``$.fs.deny``."""
    for order, text in enumerate(texts):
        yield Rule(order, f"{path}[{order}]", text)


def ancestors(path: str) -> Iterator[str]:
    """An absolute path, then each folder above it up to ``/``."""
    yield path
    while path != "/":
        path = path[: path.rfind("/")] or "/"
        yield path


class Ports:
    """The ports and protocols that the rules about one host name."""

    __slots__ = ("_exact", "_ranges")

    def __init__(self) -> None:
        self._exact: dict[tuple[int, str], list[Rule]] = {}
        self._ranges: list[tuple[int, int, str, Rule]] = []

    def add(self, low: int, high: int, protocol: str, rule: Rule) -> None:
        """Notes a rule for the ports ``low`` to ``high``."""
        if low == high:
            self._exact.setdefault((low, protocol), []).append(rule)
        else:
            self._ranges.append((low, high, protocol, rule))

    def find(self, port: int, protocol: str) -> Sequence[Rule]:
        """The rules that name a port."""
        found: Sequence[Rule] = self._exact.get((port, protocol), ())
        if not self._ranges:
            return found
        return [
            *found,
            *(
                rule
                for low, high, over, rule in self._ranges
                if low <= port <= high and over == protocol
            ),
        ]
