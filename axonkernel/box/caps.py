"""Policy -> the destinations and the limits of a box (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_network

from axonkernel.box.model import AskPlan, LimitsPlan, NetPlan
from axonkernel.box.posture import escalates
from axonkernel.policy.hosts import granted_parts
from axonkernel.policy.match import parse_destination
from axonkernel.policy.model import EscalationPolicy, NetPolicy, Policy

__all__ = ["limits_plan", "net_plan"]

#: How much later than the warden's clock systemd's comes, and for how many waits for a human
#: it leaves time, since it does not stand still meanwhile.
_SLACK_S, _WAITS = 5.0, 100


def net_plan(net: NetPolicy, asking: EscalationPolicy | None = None) -> NetPlan:
    """The literal destinations of a policy; names need the warden's resolver.

    Arguments:
        asking: how people are asked; None where it does not matter.
    """
    ask = _ask(net, asking or EscalationPolicy())
    deny = _literals(net.deny)
    if net.allow is True:
        return NetPlan(deny=deny, open=True, link=net.link, refuse=net.refuse, ask=ask)
    allow = tuple(_granted(_literals(net.allow)))
    link = net.link if allow or ask else "none"
    return NetPlan(allow=allow, deny=deny, link=link, refuse=net.refuse, ask=ask)


def _ask(net: NetPolicy, asking: EscalationPolicy) -> AskPlan | None:
    if not net.escalate:
        return None
    held = _literals(net.escalate)
    return AskPlan(net.escalate, net.deny, held, asking.timeout_s, asking.headless)


def _literals(entries: Iterable[str]) -> tuple[tuple[str, str, str], ...]:
    destinations = map(parse_destination, entries)
    return tuple(
        (d.host, d.protocol, f"{d.low}" if d.low == d.high else f"{d.low}-{d.high}")
        for d in destinations
        if d.kind in ("ip", "cidr")
    )


def _granted(triples: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str, str]]:
    """A broad entry grants no link-local or metadata address, as in a decision."""
    for host, protocol, ports in triples:
        if "/" not in host:
            yield host, protocol, ports
            continue
        for part in granted_parts(ip_network(host)):
            yield str(part), protocol, ports


def limits_plan(policy: Policy) -> LimitsPlan | None:
    """The caps of a policy that a scope and the warden hold; None without ``limits``."""
    limits = policy.limits
    if limits is None:
        return None
    return LimitsPlan(
        memory_bytes=limits.memory_bytes or 0,
        cpu_millicores=limits.cpu_millicores or 0,
        wall_s=limits.wall_s or 0.0,
        pids=limits.pids or 0,
        slack_s=_SLACK_S + (_WAITS * policy.escalation.timeout_s if escalates(policy) else 0),
    )
