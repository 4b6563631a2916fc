"""The part of a box's table that sends TCP to named destinations through the relay (pure).

What ``net.allow`` grants by name is in the sets ``named4`` and ``named6``; the resolver fills
them. The box's own connections there are redirected to the relay on the loopback of the box;
the relay goes on by sockets with a mark, which takes a capability the box does not have.
Nothing but the relay's packets leaves for a named destination.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from axonkernel.box.rules import ACCEPT, Json, destination, match, meta

__all__ = ["CHAIN", "HOOK", "MARK", "MARKED", "PORT", "REDIRECTED", "SET", "redirections"]

#: Of the relay's sockets: "axon".
MARK = 0x61786F6E
#: Where the relay listens. Below 1024: nothing in the box can take it, not even while no
#: relay runs.
PORT = 1023
#: Begins the names of the sets of named destinations; their family's digit follows.
SET = "named"
CHAIN = "named"
#: Where destination NAT happens to packets that begin here.
HOOK: Json = {"type": "nat", "hook": "output", "prio": -100, "policy": "accept"}

_FAMILIES = (("4", "ip"), ("6", "ip6"))
#: Sent by the relay.
MARKED = match(meta("mark"), MARK)
#: On the way to the relay. In the output chain the packet still has its old interface.
REDIRECTED = match({"ct": {"key": "status"}}, "dnat", "in")


def redirections(literal: Collection[str], *, spanned: bool = False) -> Iterator[tuple[Json, ...]]:
    """The rules of the chain ``CHAIN``; they see the first packet of each connection.

    Arguments:
        literal: digits of the families with literal grants: those go straight, as does what
            was let through while the box runs.
        spanned: whether names are granted for more than one port at a time.
    """
    tcp = match(meta("l4proto"), "tcp")
    yield MARKED, ACCEPT
    for digit, ip in _FAMILIES:
        straight = ["allow", "net"] if digit in literal else ["allow"]
        for name in straight:
            yield tcp, match(destination(ip), f"@{name}{digit}"), ACCEPT
        for name in (SET, f"{SET}span") if spanned else (SET,):
            yield tcp, match(destination(ip), f"@{name}{digit}"), {"redirect": {"port": PORT}}
