"""Policy -> the destinations and the limits of a box (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import ip_network

from axonkernel.box.model import AskPlan, LimitsPlan, NetPlan
from axonkernel.box.posture import escalates
from axonkernel.policy.hosts import (
    Network,
    granted_parts,
    network_needs_own_entry,
    private_networks,
    public_networks,
    translated,
)
from axonkernel.policy.match import Destination, parse_destination
from axonkernel.policy.model import EscalationPolicy, NetPolicy, Policy

__all__ = ["limits_plan", "net_plan"]
_Triple = tuple[str, str, str]

#: How much later than the warden's clock systemd's comes, and for how many waits for a human
#: it leaves time, since it does not stand still meanwhile.
_SLACK_S, _WAITS = 5.0, 100


def net_plan(net: NetPolicy, asking: EscalationPolicy | None = None) -> NetPlan:
    """What the table of a box holds, and its resolver.

    Arguments:
        asking: how people are asked; None where it does not matter.
    """
    plan = NetPlan(
        deny=tuple(_literals(net.deny)),
        link=net.link,
        refuse=net.refuse,
        ask=_ask(net, asking or EscalationPolicy()),
        denied=tuple(_names(net.deny)),
        asked=tuple(_names(net.escalate)),
        dns=net.dns,
        resolver=net.resolver or "",
        proxy=net.proxy or "",
        relayed=net.proxy is not None,
        listen=net.listen,
    )
    if net.allow is True:
        return plan._replace(open=True)
    plan = plan._replace(allow=tuple(_granted(net.allow)), names=tuple(_names(net.allow)))
    if net.tls_names == "check":
        plan = plan._replace(checked=True, relayed=True)
    if plan.relayed:  # which takes TCP alone
        plan = plan._replace(names=_by_tcp(plan.names), asked=_by_tcp(plan.asked))
    if plan.allow or plan.ask or plan.listen:
        return plan
    named = "proxy" if plan.proxy else plan.link
    return plan._replace(link=named if plan.names and plan.resolves else "none")


def _by_tcp(triples: Iterable[_Triple]) -> tuple[_Triple, ...]:
    return tuple(triple for triple in triples if triple[1] == "tcp")


def _ask(net: NetPolicy, asking: EscalationPolicy) -> AskPlan | None:
    if not net.escalate:
        return None
    held = tuple(_literals(net.escalate))
    return AskPlan(net.escalate, net.deny, held, asking.timeout_s, asking.headless)


def _literals(entries: Iterable[str]) -> Iterator[_Triple]:
    """The addresses of some entries, in all their breadth: also IPv4 inside IPv6, as in a
    decision."""
    for entry in map(parse_destination, entries):
        named = [ip_network(entry.host)] if entry.kind in ("ip", "cidr") else []
        if named:
            yield entry.host, entry.protocol, _ports(entry)
        others = _networks(entry)
        wrapped = (each for network in (*named, *others) for each in translated(network))
        for part in (*others, *wrapped):
            yield str(part), entry.protocol, _ports(entry)


def _granted(entries: Iterable[str]) -> Iterator[_Triple]:
    """A broad entry grants no link-local or metadata address, as in a decision."""
    for entry in map(parse_destination, entries):
        if entry.kind == "ip":
            yield entry.host, entry.protocol, _ports(entry)
        cidr = [ip_network(entry.host)] if entry.kind == "cidr" else []
        broad = [each for each in _networks(entry) if not network_needs_own_entry(each)]
        for part in (part for network in (*cidr, *broad) for part in granted_parts(network)):
            yield str(part), entry.protocol, _ports(entry)


def _networks(entry: Destination) -> tuple[Network, ...]:
    """What the words ``public`` and ``private`` stand for."""
    if entry.kind == "public":
        return public_networks()
    return private_networks() if entry.kind == "private" else ()


def _names(entries: Iterable[str]) -> Iterator[_Triple]:
    """The names of some entries, of which ``public`` is any."""
    for entry in map(parse_destination, entries):
        if entry.kind in ("name", "wildcard", "any", "public"):
            name = "*" if entry.kind == "public" else entry.host
            yield name, entry.protocol, _ports(entry)


def _ports(entry: Destination) -> str:
    return f"{entry.low}" if entry.low == entry.high else f"{entry.low}-{entry.high}"


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
