"""Fields of the policy that this version reads and has nothing to hold with (pure).

They are refused like a missing piece of the machine, never ignored: a policy that is only
partly held must not look as if it were held.
"""

from __future__ import annotations

from collections.abc import Iterator

from axonkernel.policy.match import parse_destination
from axonkernel.policy.model import NetPolicy, Policy

__all__ = ["names_in", "unbuilt", "unreachable"]


def unbuilt(policy: Policy) -> Iterator[tuple[str, str]]:
    """(field, what would hold it) of each declared field without a wall in any box."""
    if policy.net is not None:
        yield from _net(policy.net)
    if policy.box.noexec:
        yield "box.noexec", "mounts without execution"
    if policy.box.devices:
        yield "box.devices", "devices in the box"


def _net(net: NetPolicy) -> Iterator[tuple[str, str]]:
    if net.tls_names == "check":
        yield "net.tls_names", "the check of TLS server names"
    if net.proxy is not None:
        yield "net.proxy", "a way through a proxy"
    if net.listen:
        yield "net.listen", "ports that the host can reach in the box"
    if net.resolver is not None or net.dns == "open":
        yield "net.dns", "name resolution in the box"


def names_in(net: NetPolicy | None) -> tuple[str, ...]:
    """The entries of ``net.allow`` that only a resolver in the box could open."""
    literal = ("ip", "cidr")
    return tuple(each for each in _allowed(net) if parse_destination(each).kind not in literal)


def unreachable(net: NetPolicy | None) -> Iterator[str]:
    """A line for each entry of ``net.allow`` that opens nothing inside a box."""
    for entry in names_in(net):
        yield f"net.allow {entry}: names cannot be reached from inside a box yet; addresses can"
    for entry in _allowed(net):
        if parse_destination(entry).host.startswith(("127.", "::1")):
            yield f"net.allow {entry}: a box has a loopback of its own, not the host's"


def _allowed(net: NetPolicy | None) -> tuple[str, ...]:
    return () if net is None or net.allow is True else net.allow
