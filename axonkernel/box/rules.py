"""The words of packet filter rules, as libnftables JSON (pure)."""

from __future__ import annotations

from axonkernel.typed import Any

__all__ = [
    "ACCEPT",
    "DROP",
    "KNOWN",
    "NEIGHBOURS",
    "REJECT",
    "RESET",
    "Json",
    "destination",
    "match",
    "meta",
    "payload",
]

Json = dict[str, Any]


def meta(key: str) -> Json:
    """What the kernel knows of a packet, such as ``iifname``."""
    return {"meta": {"key": key}}


def payload(protocol: str, field: str) -> Json:
    """A field of a packet's header."""
    return {"payload": {"protocol": protocol, "field": field}}


def match(left: Json, right: Any, op: str = "==") -> Json:
    """Go on with the rule only when this holds."""
    return {"match": {"op": op, "left": left, "right": right}}


def destination(ip: str, port: Any = None) -> Json:
    """Address, protocol and port a packet goes to; ``ip`` is ``ip`` or ``ip6``."""
    port = payload("th", "dport") if port is None else port
    return {"concat": [payload(ip, "daddr"), meta("l4proto"), port]}


ACCEPT: Json = {"accept": None}
DROP: Json = {"drop": None}
#: Over IPv6 an ICMP error is seen by connect() only after a second, a reset at once.
RESET: tuple[Json, ...] = (match(meta("l4proto"), "tcp"), {"reject": {"type": "tcp reset"}})
REJECT: Json = {"reject": {"type": "icmpx", "expr": "admin-prohibited"}}
#: Part of a connection that was let through when it began.
KNOWN = match({"ct": {"key": "state"}}, ["established", "related"], "in")
#: What IPv6 needs to find its neighbours.
NEIGHBOURS = match(
    payload("icmpv6", "type"), {"set": ["nd-neighbor-solicit", "nd-neighbor-advert"]}
)
