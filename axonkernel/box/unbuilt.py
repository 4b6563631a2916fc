"""Fields of the policy that this version reads and has nothing to hold with (pure).

They are refused like a missing piece of the machine, never ignored: a policy that is only
partly held must not look as if it were held.
"""

from __future__ import annotations

from collections.abc import Iterator

from axonkernel.policy.match import parse_destination
from axonkernel.policy.model import NetPolicy, Policy

__all__ = ["holds_noexec", "names_in", "unbuilt", "unreachable"]


def unbuilt(policy: Policy) -> Iterator[tuple[str, str]]:
    """(field, what would hold it) of each declared field without a wall in any box."""
    if policy.net is not None:
        yield from _net(policy.net)
    if policy.box.noexec and not holds_noexec(policy):
        yield "box.noexec", "a file tree of the box's own (fs declared, / not in fs.write)"


def holds_noexec(policy: Policy) -> bool:
    """Whether nothing starts where a box for ``policy`` can write: not so where that is the
    host's whole tree, which holds the programs."""
    return bool(policy.box.noexec) and policy.fs is not None and "/" not in policy.fs.write


def _net(net: NetPolicy) -> Iterator[tuple[str, str]]:
    if net.proxy is not None and net.proxy.startswith("https:"):
        yield "net.proxy", "TLS on the way to the proxy (http:// works)"
    if net.listen and net.link == "veth":
        yield "net.listen", 'a way into the box (net.link = "pasta" has one)'


def names_in(net: NetPolicy | None) -> tuple[str, ...]:
    """The entries of ``net.allow`` that a box's resolver opens, address by address."""
    named = ("name", "wildcard", "any")
    return tuple(each for each in _allowed(net) if parse_destination(each).kind in named)


def unreachable(net: NetPolicy | None) -> Iterator[str]:
    """A line for each entry of ``net.allow`` that opens nothing inside a box."""
    if net is not None and net.dns == "off":
        for entry in names_in(net):
            yield f"net.allow {entry}: net.dns is off, so that no name is found in a box"
    if net is not None:
        yield from _not_relayed(net)
    for entry in _allowed(net):
        if parse_destination(entry).host.startswith(("127.", "::1")):
            yield f"net.allow {entry}: a box has a loopback of its own, not the host's"


def _not_relayed(net: NetPolicy) -> Iterator[str]:
    """What the relay of named destinations takes nowhere."""
    by = "net.proxy" if net.proxy is not None else 'net.tls_names = "check"'
    if net.proxy is None and net.tls_names == "off":
        return
    for entry in names_in(net):
        parsed = parse_destination(entry)
        if parsed.protocol == "udp":
            yield f"net.allow {entry}: {by} lets nothing through to a name by UDP"
        elif net.tls_names == "check" and (port := _in_clear(parsed.low, parsed.high)):
            yield (
                f"net.allow {entry}: what begins without TLS, as is usual on port {port}, is "
                'refused by net.tls_names = "check"; grant the address instead of the name, or '
                "another port"
            )
    for entry in _allowed(net) if net.tls_names == "check" else ():
        if parse_destination(entry).kind == "public":
            yield f"net.allow {entry}: addresses go straight, so that no server name is compared"
    if net.allow is True and net.tls_names == "check":
        yield "net.tls_names compares nothing: net.allow is true, so that no name is granted"


#: Where no client speaks TLS from its first byte on: FTP, SSH, telnet, SMTP, DNS, HTTP, POP,
#: IMAP, LDAP, git, MySQL, PostgreSQL, Redis, and HTTP again.
_IN_CLEAR = (21, 22, 23, 25, 53, 80, 110, 143, 389, 587, 3128, 3306, 5432, 6379, 8000, 8080, 9418)


def _in_clear(low: int, high: int) -> int:
    """The port of a grant of one, when it is usual there to begin without TLS; else 0."""
    return low if low == high and low in _IN_CLEAR else 0


def _allowed(net: NetPolicy | None) -> tuple[str, ...]:
    return () if net is None or net.allow is True else net.allow
