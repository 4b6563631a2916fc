"""What is said of a box after its end, beside its exit code.

Names are an agent's choice, and are shown as prompts show them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from axonkernel.box.model import BoxResult, Refusal
from axonkernel.policy.visible import visible

__all__ = ["KEEPER_GONE", "refusals", "remarks"]

KEEPER_GONE = "what held its masks was ended, so the box was ended too"
#: Names that are listed; more are counted.
_MOST_NAMED = 8


def remarks(result: BoxResult) -> Iterator[str]:
    """Lines for whoever started the box."""
    if result.reason == "keeper":
        why = next((text for what, text in result.kept if what == "keeper.ended"), "killed")
        yield f"{KEEPER_GONE} ({visible(why)})"
    if refused := refusals(each for each in result.denied if not _by_relay(each)):
        yield f"refused, as net.allow does not grant it: {refused}"
    if refused := refusals(filter(_by_relay, result.denied)):
        yield f"refused on the way to a granted name: {refused}"
    made = [path for what, path in result.kept if what == "name.made"]
    if made:
        yield f"new since the start, and run or obeyed outside: {_listed(made)}"
    masked = [path for what, path in result.kept if what in ("mask.added", "mask.restored")]
    if masked:
        yield f"new or replaced since the start, and covered a moment later: {_listed(masked)}"
    for what, path in result.kept:
        if what == "watch.full":
            yield f"below {visible(path)} new names were not watched: there are too many folders"


def refusals(denied: Iterable[Refusal]) -> str:
    """What a box was refused on the network, in words; "" for nothing."""
    return _listed([_refused(each) for each in denied if each.protocol])


def _listed(names: list[str]) -> str:
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    return f"{', '.join(map(visible, names[:_MOST_NAMED]))}{more}"


#: What the relay of named destinations refuses (resolver/connection.py), in words.
_OF_RELAY = {
    "tls-name": "the TLS server name {name} on port {port}",
    "tls-none": "TLS without a server name to {place}",
    "tls-encrypted": "TLS with an encrypted server name (ECH) to {place}",
    "tls-malformed": "TLS that cannot be read to {place}",
    "not-tls": "what is not TLS to {place}, as net.tls_names is check",
    "slow": "a connection to {place} that said nothing",
    "unreachable": "a connection to {place}, which did not answer",
    "ungranted": "a connection to {place}, which no granted name leads to",
    "full": "one more connection to {place}: there are too many",
}


def _by_relay(refusal: Refusal) -> bool:
    return refusal.protocol in _OF_RELAY or refusal.protocol.startswith("proxy-")


def _of_relay(refusal: Refusal) -> str:
    host = refusal.name or refusal.address
    place = f"{host}:{refusal.port}"
    if refusal.protocol.startswith("proxy-"):
        return f"{place} by net.proxy, with status {refusal.protocol[len('proxy-') :]}"
    said = _OF_RELAY[refusal.protocol]
    return said.format(name=refusal.name, port=refusal.port, place=place)


def _refused(refusal: Refusal) -> str:
    """As ``net.allow`` spells it, with the name that led there."""
    if refusal.protocol.startswith("dns"):
        if refusal.address:
            return f"the address {refusal.address} of {refusal.name} (private or denied)"
        kind = refusal.protocol.partition("/")[2]
        return f"the name {refusal.name}" + (f" ({kind})" if kind else "")
    if _by_relay(refusal):
        return _of_relay(refusal)
    host = f"[{refusal.address}]" if ":" in refusal.address else refusal.address
    protocol = "" if refusal.protocol == "tcp" else f"/{refusal.protocol}"
    name = f" ({refusal.name})" if refusal.name else ""
    return f"{host}:{refusal.port}{protocol}{name}"
