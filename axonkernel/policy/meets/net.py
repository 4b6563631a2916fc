"""The common part of two ``net`` blocks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from axonkernel.policy.match import parse_destination
from axonkernel.policy.meets.hosts import Met
from axonkernel.policy.model import NetPolicy

__all__ = ["common_allow", "meet_net"]

Allow = tuple[str, ...] | Literal[True]


def meet_net(a: NetPolicy, b: NetPolicy) -> NetPolicy:
    """What both blocks grant; what either asks a human about is asked."""
    if a == b:
        return a
    granted = common_allow(a.allow, b.allow)
    return NetPolicy(
        allow=granted,
        deny=_unique(a.deny, b.deny),
        escalate=_asked(a, b, granted),
        dns=min(a.dns, b.dns, key=("off", "allowlist", "open").index),
        tls_names="check" if "check" in (a.tls_names, b.tls_names) else "off",
        listen=tuple(port for port in a.listen if port in b.listen),
        unix="none" if "none" in (a.unix, b.unix) else "box",
        link="veth" if "veth" in (a.link, b.link) else "pasta",
        refuse="drop" if "drop" in (a.refuse, b.refuse) else "reject",
        resolver=b.resolver if a.resolver is None else a.resolver,
        proxy=b.proxy if a.proxy is None else a.proxy,
    )


def common_allow(a: Allow, b: Allow, *, covering: bool = False) -> Allow:
    """The destinations in both lists; True stands for all of them.

    Arguments:
        covering: broad entries count for link-local and metadata addresses too, as they do
            when they deny or ask.
    """
    if a is True:
        return b
    if b is True:
        return a
    met = Met(map(parse_destination, b), covering=covering)
    found = (entry for own in map(parse_destination, a) for entry in met.common(own))
    return tuple(dict.fromkeys(entry.canonical for entry in found))


def _asked(a: NetPolicy, b: NetPolicy, granted: Allow) -> tuple[str, ...]:
    """What one side asks about and the other offers, or asks about too."""
    asked: list[str] = []
    for own, other in ((a, b), (b, a)):
        offered: Allow = True if other.allow is True else (*other.allow, *other.escalate)
        asked += _listed(common_allow(own.escalate, offered))
        # A broad question is about a metadata address that is granted, too; a question about
        # that address is an offer where no more than a broad entry grants it.
        about = _listed(common_allow(own.escalate, granted, covering=True))
        asked += about if granted is True else _offered(about, granted)
    return tuple(dict.fromkeys(asked))


def _offered(about: tuple[str, ...], granted: tuple[str, ...]) -> Iterator[str]:
    """The entries of which something is granted."""
    met = Met(map(parse_destination, granted), covering=False)
    for entry in about:
        if next(met.common(parse_destination(entry)), None) is not None:
            yield entry


def _listed(found: Allow) -> tuple[str, ...]:
    return () if found is True else found


def _unique(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*a, *b)))
