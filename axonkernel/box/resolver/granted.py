"""Which names are answered, and what each lets a box reach (pure)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from axonkernel.box.model import NetPlan
from axonkernel.box.resolver.spans import Span, atoms, less, parse
from axonkernel.policy.hosts import bases

__all__ = ["Granted", "is_host_name"]

#: What may stand for the star of a grant: more is data, not a name.
_MOST_CHARACTERS, _MOST_LABELS = 80, 6
_EVERYTHING = (Span("tcp", 1, 65535), Span("udp", 1, 65535))
_HOST_NAME = re.compile(r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.|\Z))+\Z")


def is_host_name(name: str) -> bool:
    """Whether a name, in lower case and without a last dot, can be one of a host."""
    return len(name) <= 253 and name[-1:] != "." and bool(_HOST_NAME.match(name))


class Granted:
    """The names of a plan, and those that a person lets in while the box runs.

    What the plan has ``denied`` is not granted for those ports, whatever grants it; nor is what
    is ``asked`` about, until a person says so.
    """

    def __init__(self, net: NetPlan) -> None:
        self._open = net.open
        self._names = _table(net.names)
        self._denied = _table(net.denied)
        self._asked = _table(net.asked)
        self._added: dict[str, list[Span]] = {}
        tables = (self._names, self._denied, self._asked)
        self._edges = [span for table in tables for spans in table.values() for span in spans]

    def spans(self, name: str) -> tuple[Span, ...]:
        """The ports a name is granted for; none for a name that is not.

        Of two names' spans any two are the same or have no port in common. Where everything is
        open no port of an address can be denied, so that a name with a denied one has none.
        """
        if self._open and self.denied(name):
            return ()
        granted = _EVERYTHING if self._open else self._found(self._names, name)
        left = less(granted, [*self.denied(name), *self._found(self._asked, name)])
        return tuple(atoms([*left, *self._added.get(name, ())], self._edges))

    def denied(self, name: str) -> list[Span]:
        """The ports for which nothing grants a name."""
        return list(self._found(self._denied, name))

    def asks(self, name: str) -> bool:
        """Whether a person can let a name be answered that is not granted."""
        left = less(self._found(self._asked, name), self.denied(name))
        return any(True for _ in left)

    def waits(self, name: str) -> bool:
        """Whether nothing is granted of a name before a person has said so.

        Where everything may be reached, an answer is all that can be withheld.
        """
        return not (self._added.get(name) if self._open else self.spans(name))

    def add(self, host: str, protocol: str, ports: str) -> None:
        """Grant a name for some ports more, all of which it was asked for."""
        self._added.setdefault(host, []).append(parse(protocol, ports))

    def free_part(self, name: str) -> str | None:
        """What of a name stands for the star of a grant; None where it is granted as it is."""
        if name in self._names or name in self._added:
            return None
        for base in bases(name):
            if f"*.{base}" in self._names:
                return name[: -len(base) - 1]
        return name

    @staticmethod
    def is_plausible(free: str) -> bool:
        """Whether what stands for a star could be part of a name that somebody uses."""
        return len(free) <= _MOST_CHARACTERS and free.count(".") < _MOST_LABELS

    @staticmethod
    def _found(table: dict[str, list[Span]], name: str) -> Iterator[Span]:
        for key in ("*", name, *(f"*.{base}" for base in bases(name))):
            yield from table.get(key, ())


def _table(triples: Iterable[tuple[str, str, str]]) -> dict[str, list[Span]]:
    table: dict[str, list[Span]] = {}
    for name, protocol, ports in triples:
        table.setdefault(name, []).append(parse(protocol, ports))
    return table
