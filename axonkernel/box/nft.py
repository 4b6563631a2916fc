"""NetPlan -> the packet filter of a box, as one libnftables JSON value, and its transports.

``ruleset`` is pure. The rest runs in the warden, inside the box's network namespace: ``load``
puts the value there, ``add_elements`` and ``read_refused`` work on its sets. A context of
libnftables belongs to the namespace it was made in, so ``load`` makes it and the
other two use it. Standard library only; the ``nftables`` binding is used when it is there, the
``nft`` program otherwise.
"""

from __future__ import annotations

import _socket  # see channel.py
import json
from collections.abc import Callable, Iterable, Iterator, Sequence

from axonkernel.box import capabilities, redirected
from axonkernel.box.intervals import bare, disjoint, family
from axonkernel.box.model import NetPlan
from axonkernel.box.programs import find, install, run
from axonkernel.box.rules import (
    ACCEPT,
    DROP,
    KNOWN,
    NEIGHBOURS,
    REJECT,
    RESET,
    Json,
    destination,
    match,
    meta,
    payload,
)
from axonkernel.errors import BoxError, IsolationUnavailable
from axonkernel.typed import Any

__all__ = [
    "REFUSED_SIZE",
    "TABLE",
    "add_elements",
    "load",
    "named_set",
    "read_refused",
    "renew",
    "ruleset",
    "warm_up",
]

TABLE = "axon"
#: How many refused destinations a box remembers between two reads.
REFUSED_SIZE = 256

Destination = tuple[str, str, int | str]
#: A destination and how many packets to it were refused.
Refused = tuple[str, str, int, int]
_Triple = tuple[str, str, str]
#: Command text to (result code, output, error text).
_Transport = Callable[[str], tuple[int, str, str]]

_OWNER = {"family": "inet", "table": TABLE}
_FAMILIES = (("4", "ip", "ipv4_addr"), ("6", "ip6", "ipv6_addr"))
_REFUSED_KEPT_S = 3600
_NETLINK_NETFILTER = 12
#: nft prints numbers where /etc/protocols is missing, as on a minimal Debian.
_PROTOCOLS = {"1": "icmp", "6": "tcp", "17": "udp", "58": "ipv6-icmp", "132": "sctp"}


# -- the value --------------------------------------------------------------------------


def ruleset(net: NetPlan, own: Sequence[str] = ()) -> Json:
    """The filter of a box: everything is refused but what ``net`` allows.

    Sets, per family (``4`` and ``6``): ``net`` and ``deny`` hold the literal destinations of
    the plan, ``ask`` those that a person is asked about first, ``allow`` is empty and for the
    warden (with timeouts), ``refused`` collects what was refused. ``create`` makes a second
    load fail rather than double the rules.

    Arguments:
        own: addresses and networks of the host itself, where the link reaches it: a name, word
            or network that covers one is not enough, an entry has to name it alone.
    """
    if net.open:
        own = ()
    commands: list[Json] = [{"create": {"table": {"family": "inet", "name": TABLE}}}]
    commands += _sets(net)
    commands += _own_sets(net, own)
    commands.append({"add": {"chain": {**_OWNER, "name": "refuse"}}})
    commands += [_base_chain(hook) for hook in ("input", "output", "forward")]
    commands += _redirection(net)
    commands += [_rule("input", *expr) for expr in _input_rules(net)]
    commands += [_rule("output", *expr) for expr in _output_rules(net, own)]
    commands += [_rule("refuse", *expr) for expr in _refuse_rules(net)]
    return {"nftables": commands}


def _sets(net: NetPlan) -> Iterator[Json]:
    for digit, _, kind in _FAMILIES:
        key = [kind, "inet_proto", "inet_service"]
        yield _set(f"allow{digit}", key, flags=["timeout"])
        if _spanned(net, "allow"):
            yield _set(f"allowspan{digit}", key, flags=["interval", "timeout"])
        if net.relayed:
            yield _set(f"{redirected.SET}{digit}", key, flags=["timeout"])
        if net.relayed and _spanned(net, redirected.SET):
            yield _set(f"{redirected.SET}span{digit}", key, flags=["interval", "timeout"])
        # A set that rules add to is made with timeouts: the JSON of nft 1.0.6 has no flag
        # "dynamic", and the kernel needs one of the two.
        yield _set(
            f"refused{digit}",
            key,
            flags=["timeout"],
            timeout=_REFUSED_KEPT_S,
            size=REFUSED_SIZE,
        )
        for name, triples in (("net", net.allow), ("deny", net.deny), ("ask", _held(net))):
            if elements := disjoint(triples, digit):
                yield _set(f"{name}{digit}", key, flags=["interval"], elem=elements)
        if net.open and (elements := bare(net.deny, digit)):
            yield _set(f"bare{digit}", kind, flags=["interval"], elem=elements)


def named_set(net: NetPlan, protocol: str, ports: str) -> str:
    """What the names of the sets begin with that take the addresses of granted names."""
    begins = redirected.SET if net.relayed and protocol == "tcp" else "allow"
    return f"{begins}span" if "-" in ports else begins


def _spanned(net: NetPlan, begins: str) -> bool:
    """Whether names are granted for more than one port at a time."""
    sets = {named_set(net, protocol, ports) for _, protocol, ports in (*net.names, *net.asked)}
    everything = net.open and begins == redirected.SET
    return everything or f"{begins}span" in sets


def _set(name: str, kind: Any, **rest: Any) -> Json:
    return {"add": {"set": {**_OWNER, "name": name, "type": kind, **rest}}}


def _base_chain(hook: str) -> Json:
    chain = {"name": hook, "type": "filter", "hook": hook, "prio": 0, "policy": "drop"}
    return {"add": {"chain": {**_OWNER, **chain}}}


def _rule(chain: str, *expr: Json) -> Json:
    return {"add": {"rule": {**_OWNER, "chain": chain, "expr": list(expr)}}}


def _redirection(net: NetPlan) -> Iterator[Json]:
    if net.relayed:
        yield {"add": {"chain": {**_OWNER, "name": redirected.CHAIN, **redirected.HOOK}}}
        literal = {family(address) for address, _, _ in net.allow}
        spanned = _spanned(net, redirected.SET)
        rules = redirected.redirections(literal, spanned=spanned)
        yield from (_rule(redirected.CHAIN, *expr) for expr in rules)


_REFUSE: Json = {"goto": {"target": "refuse"}}
_PORTED = {"set": ["tcp", "udp"]}
_ICMPV6_TYPE = payload("icmpv6", "type")
#: What the kernel sends on its own when a link comes up: not the agent's doing, not reported.
_CHATTER = (
    match(_ICMPV6_TYPE, {"set": ["nd-router-solicit", "mld2-listener-report"]}),
    match(meta("l4proto"), "igmp"),
)


def _input_rules(net: NetPlan) -> Iterator[tuple[Json, ...]]:
    yield match(meta("iifname"), "lo"), ACCEPT
    yield KNOWN, ACCEPT
    if net.link != "none":
        yield NEIGHBOURS, ACCEPT


def _output_rules(net: NetPlan, own: Sequence[str]) -> Iterator[tuple[Json, ...]]:
    yield match(meta("oifname"), "lo"), ACCEPT
    if net.relayed:
        yield redirected.REDIRECTED, ACCEPT
    # Accepted first, so that a live connection outlasts its element; what deny
    # names never got that far.
    yield KNOWN, ACCEPT
    yield from _lookups("deny", net.deny, _REFUSE)
    if net.link != "none":
        yield NEIGHBOURS, ACCEPT
        yield from ((chatter, DROP) for chatter in _CHATTER)
    yield from _own_rules(net, own)
    if net.relayed:
        yield redirected.MARKED, ACCEPT
    if not net.open or net.ask is not None:
        for begins in ("allow", "allowspan") if _spanned(net, "allow") else ("allow",):
            for digit, ip, _ in _FAMILIES:
                yield match(destination(ip), f"@{begins}{digit}"), ACCEPT
    yield from _lookups("ask", _held(net), _REFUSE)
    if net.open:
        yield from _bare_lookups(net.deny)
        yield (ACCEPT,)
        return
    yield from _lookups("net", net.allow, ACCEPT)
    yield (_REFUSE,)


def _own_sets(net: NetPlan, own: Sequence[str]) -> Iterator[Json]:
    for digit, _, kind in _FAMILIES:
        if elements := bare([(address, "", "") for address in own], digit):
            yield _set(f"own{digit}", kind, flags=["interval"], elem=elements)
            if lone := disjoint(_lone(net), digit):
                key = [kind, "inet_proto", "inet_service"]
                yield _set(f"lone{digit}", key, flags=["interval"], elem=lone)


def _own_rules(net: NetPlan, own: Sequence[str]) -> Iterator[tuple[Json, ...]]:
    """The host is refused before anything that grants more than one address."""
    for digit, ip, _ in _FAMILIES:
        if any(family(address) == digit for address in own):
            here = match(payload(ip, "daddr"), f"@own{digit}")
            lone = any(family(address) == digit for address, _, _ in _lone(net))
            others = (match(destination(ip), f"@lone{digit}", "!="),) if lone else ()
            yield here, *others, _REFUSE


def _lone(net: NetPlan) -> tuple[_Triple, ...]:
    """What is granted, or asked about, as one address."""
    return tuple(triple for triple in (*net.allow, *_held(net)) if "/" not in triple[0])


def _held(net: NetPlan) -> tuple[_Triple, ...]:
    return () if net.ask is None else net.ask.held


def _lookups(name: str, triples: tuple[_Triple, ...], verdict: Json) -> Iterator[tuple[Json, ...]]:
    for digit, ip, _ in _FAMILIES:
        if any(family(address) == digit for address, _, _ in triples):
            yield match(destination(ip), f"@{name}{digit}"), verdict


def _bare_lookups(deny: tuple[_Triple, ...]) -> Iterator[tuple[Json, ...]]:
    """Protocols without ports are refused to every denied address."""
    for digit, ip, _ in _FAMILIES:
        if any(family(address) == digit for address, _, _ in deny):
            unported = match(meta("l4proto"), _PORTED, "!=")
            yield unported, match(payload(ip, "daddr"), f"@bare{digit}"), _REFUSE


def _refuse_rules(net: NetPlan) -> Iterator[tuple[Json, ...]]:
    ported = match(meta("l4proto"), _PORTED)
    unported = match(meta("l4proto"), _PORTED, "!=")
    for digit, ip, _ in _FAMILIES:
        noted = {"op": "add", "set": f"@refused{digit}", "stmt": [{"counter": None}]}
        yield ported, {"set": {**noted, "elem": destination(ip)}}
        yield unported, {"set": {**noted, "elem": destination(ip, 0)}}
    if net.refuse == "drop":
        yield (DROP,)
        return
    yield RESET
    yield (REJECT,)


# -- transports -------------------------------------------------------------------------

_transport: _Transport | None = None


def warm_up() -> None:
    """Pay the binding's first-use cost early: in the fork server, before it forks."""
    _binding()


def _binding() -> _Transport | None:
    try:
        _require_netlink()
        import nftables

        context = nftables.Nftables()
    except (ImportError, OSError, AttributeError):  # the last: a folder left by a removal
        return None
    context.set_json_output(True)
    # The binding has no types.
    return context.cmd  # type: ignore[no-any-return]


def _require_netlink() -> None:
    """Raise OSError where no packet filter can be asked, as in a box: there the library under
    the binding ends the whole process."""
    _socket.socket(_socket.AF_NETLINK, _socket.SOCK_RAW, _NETLINK_NETFILTER).close()


def _program() -> _Transport | None:
    path = find("nft")
    if path is None:
        return None

    def cmd(text: str) -> tuple[int, str, str]:
        with capabilities.ambient(capabilities.NET_ADMIN):
            return run([path, "-j", "-f", "-"], text=text)

    return cmd


def load(value: Json) -> None:
    """Load a ruleset into the network namespace this process is in.

    Raises BoxError (stage ``table``) when the kernel does not take it, with text that is for
    the operator only, and IsolationUnavailable when neither the binding nor ``nft`` is here.
    """
    global _transport
    _transport = _binding() or _program()
    _send(value)


def renew() -> None:
    """A way to the table of this process's own: two processes cannot share one.

    After a fork. The parent's is neither used nor closed: its descriptor may be another's by
    now.
    """
    global _transport, _parents
    _parents, _transport = _transport, _binding() or _program()


_parents: _Transport | None = None


def _send(value: Json) -> list[Json]:
    if _transport is None:
        raise IsolationUnavailable("net", "nft", install("nftables"))
    code, out, err = _transport(json.dumps(value))
    if code != 0:
        raise BoxError("table", f"nftables refused the rules: {err.strip() or code}")
    # One JSON document per command; a command without an answer has none.
    return [item for line in out.splitlines() for item in json.loads(line)["nftables"]]


def add_elements(
    destinations: Iterable[Destination], timeout_s: int | None, into: str = "allow"
) -> None:
    """Let ``(address, protocol, port)`` be reached for ``timeout_s`` seconds from now; None for
    as long as there is the table. ``into`` begins the names of the sets; those for spans take
    ``low-high`` for a port.

    One transaction without a gap, also for an element that is there already: kernels before
    6.12 do not renew a timeout by adding again. Raises BoxError.
    """
    commands: list[Json] = []
    for address, protocol, port in destinations:
        low, _, high = f"{port}".partition("-")
        ports = {"range": [int(low), int(high)]} if high else int(low)
        value = {"concat": [address, protocol, ports]}
        place = {**_OWNER, "name": f"{into}{family(address)}"}
        timed = value if timeout_s is None else {"elem": {"val": value, "timeout": timeout_s}}
        add = {"element": {**place, "elem": [timed]}}
        commands += [{"add": add}, {"delete": {"element": {**place, "elem": [value]}}}]
        commands.append({"add": add})
    if commands:
        _send({"nftables": commands})


def read_refused() -> tuple[Refused, ...]:
    """What was refused since the last read, as ``(address, protocol, port, packets)``; port 0
    for none.

    At most :data:`REFUSED_SIZE` per family, each destination once. Raises BoxError.
    """
    places = [{**_OWNER, "name": f"refused{digit}"} for digit, _, _ in _FAMILIES]
    # One list per command: nft 1.0.6 looks up only the first set it is asked for.
    answers = [_send({"nftables": [{"list": {"set": place}}]}) for place in places]
    found = []
    for place, answer in zip(places, answers, strict=True):
        items = [item for part in answer if "set" in part for item in part["set"].get("elem", ())]
        if items:
            # Not a flush: what was refused for the first time just now is for the next read.
            values = [item["elem"]["val"] for item in items]
            try:
                _send({"nftables": [{"delete": {"element": {**place, "elem": values}}}]})
            except BoxError:  # one has come to its time meanwhile
                _send({"nftables": [{"flush": {"set": place}}]})
        found += items
    return tuple(_refused(item) for item in found)


def _refused(item: Any) -> Refused:
    address, protocol, port = item["elem"]["val"]["concat"]
    name = _PROTOCOLS.get(str(protocol), str(protocol))
    return str(address), name, int(port), int(item["elem"]["counter"]["packets"])
