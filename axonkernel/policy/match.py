"""The spellings a policy and its requests share: destinations, paths, words.

The glob dialects are in :mod:`axonkernel.policy.globs`, hosts in
:mod:`axonkernel.policy.hosts`.
"""

from __future__ import annotations

import re
from ipaddress import ip_address, ip_network
from typing import Literal

from attrs import frozen

from axonkernel.policy.hosts import canonical_host, literal, unwrap_network

__all__ = [
    "Destination",
    "needs_shell",
    "normalize",
    "parse_destination",
    "pattern_tokens",
    "split_words",
]

DestinationKind = Literal["name", "wildcard", "any", "public", "private", "ip", "cidr"]

_KEYWORDS: dict[str, DestinationKind] = {"*": "any", "public": "public", "private": "private"}
_TAIL = re.compile(r"(?::(?P<port>\*|[0-9]{1,6}(?:-[0-9]{1,6})?))?(?:/(?P<protocol>[A-Za-z]+))?\Z")
_CIDR = re.compile(r"(?P<address>[0-9A-Fa-f.:]+)/(?P<length>[0-9]{1,3})(?P<tail>.*)\Z", re.DOTALL)
_BRACKETS = re.compile(
    r"\[(?P<address>[^\]/]*)(?:/(?P<inner>[0-9]{1,3}))?\](?:/(?P<outer>[0-9]{1,3}))?(?P<tail>.*)\Z",
    re.DOTALL,
)


@frozen
class Destination:
    """One entry of a network list.

    Arguments:
        host: a lower-case name, ``*.base``, an address, a network, ``*``, ``public`` or
            ``private``.
        kind: what ``host`` is.
        low, high: the ports, both included.
        protocol: ``tcp`` or ``udp``.
    """

    host: str
    kind: DestinationKind
    low: int
    high: int
    protocol: Literal["tcp", "udp"] = "tcp"

    @property
    def canonical(self) -> str:
        """The one spelling, which :func:`parse_destination` reads back."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        ports = f"{self.low}" if self.low == self.high else f"{self.low}-{self.high}"
        if (self.low, self.high) == (1, 65535):
            ports = "*"
        return f"{host}:{ports}{'/udp' if self.protocol == 'udp' else ''}"


def parse_destination(text: str) -> Destination:
    """An entry of ``net.allow``, ``net.deny`` or ``net.escalate``.

    Port 443 when none is given, TCP unless ``/udp``. Raises ValueError with what is wrong
    and how to write it.
    """
    if "://" in text:
        raise ValueError(f"{text!r} is a URL; write HOST:PORT, such as api.github.com:443")
    host, tail = _split_host(text)
    low, high, protocol = _parse_tail(tail, text)
    kind, canonical = _parse_host(host)
    return Destination(canonical, kind, low, high, protocol)


def _split_host(text: str) -> tuple[str, str]:
    """The host part (a network as ``address/length``) and the port part."""
    if match := _BRACKETS.match(text):
        if ":" not in match["address"]:
            raise ValueError(f"{text!r}: brackets are for IPv6 addresses")
        length = match["inner"] or match["outer"]
        return match["address"] + (f"/{length}" if length else ""), match["tail"]
    if match := _CIDR.match(text):
        return f"{match['address']}/{match['length']}", match["tail"]
    if text.count(":") > 1:
        return _bare_ipv6(text)
    for at, character in enumerate(text):
        if character in ":/":
            return text[:at], text[at:]
    return text, ""


def _bare_ipv6(text: str) -> tuple[str, str]:
    """IPv6 without brackets, where its last group cannot be taken for a port."""
    address, slash, protocol = text.partition("/")
    canonical_host(address)
    shorter = address.rpartition(":")[0]
    try:
        canonical_host(shorter) if shorter.count(":") > 1 else None
    except ValueError:
        return address, slash + protocol
    if shorter.count(":") > 1:
        raise ValueError(f"{text!r} is ambiguous; write [{shorter}]:PORT or [{address}]:PORT")
    return address, slash + protocol


def _parse_tail(tail: str, text: str) -> tuple[int, int, Literal["tcp", "udp"]]:
    match = _TAIL.match(tail)
    if match is None:
        raise ValueError(f"{text!r}: after the host comes :PORT, :LOW-HIGH or :*, then /udp")
    protocol = match["protocol"] or "tcp"
    if protocol not in ("tcp", "udp"):
        raise ValueError(f"{text!r}: the protocol is tcp or udp, not {protocol!r}")
    port = match["port"] or "443"
    first, _, last = ("1-65535" if port == "*" else port).partition("-")
    low, high = int(first), int(last or first)
    if not 1 <= low <= high <= 65535:
        raise ValueError(f"{text!r}: a port is 1 to 65535, a range goes upward")
    return low, high, "udp" if protocol == "udp" else "tcp"


def _parse_host(host: str) -> tuple[DestinationKind, str]:
    if host in _KEYWORDS:
        return _KEYWORDS[host], host
    if "/" in host:
        return _parse_network(host)
    if host.startswith("*."):
        base = canonical_host(host[2:])
        if literal(base) is not None:
            raise ValueError(f"{host!r}: a wildcard stands for names, not addresses")
        return "wildcard", f"*.{base}"
    if "*" in host:
        raise ValueError(f"{host!r}: a wildcard is a whole first label, such as *.example.com")
    name = canonical_host(host)
    if name == "localhost" or name.endswith(".localhost"):
        raise ValueError(
            f"{host!r}: a name never grants a loopback address; write 127.0.0.1:PORT or "
            "[::1]:PORT, which is the box's own inside a box"
        )
    return ("name" if literal(name) is None else "ip"), name


def _parse_network(text: str) -> tuple[DestinationKind, str]:
    address = text.partition("/")[0]
    if ":" not in address and canonical_host(address) != address:
        raise ValueError(f"{text!r} is not a network")
    try:
        network = ip_network(text, strict=False)
        first = ip_address(address)
    except ValueError:
        raise ValueError(f"{text!r} is not a network, such as 10.0.0.0/8") from None
    if network.network_address != first:
        raise ValueError(f"{text!r} has bits beyond its length; write {network}")
    network = unwrap_network(network)
    if network.prefixlen == network.max_prefixlen:
        return "ip", str(network.network_address)
    return "cidr", str(network)


def normalize(path: str) -> str:
    """An absolute path without ``.``, ``..``, doubled or trailing slashes. Lexical only.

    Raises ValueError for a relative path and for NUL.
    """
    if not path.startswith("/") or "\0" in path:
        raise ValueError(f"{path!r} is not an absolute path")
    if "//" not in path and "/." not in path and path[-1] != "/":
        return path
    kept: list[str] = []
    for part in path.split("/"):
        if part == "..":
            del kept[-1:]
        elif part not in ("", "."):
            kept.append(part)
    return "/" + "/".join(kept)


#: Characters that bash gives a meaning when they stand outside quotes.
_SHELL = frozenset("|&;<>()$`\n*?[]{}")
_RESERVED = re.compile(
    r"(?:!|\[\[|case|coproc|do|done|elif|else|esac|fi|for|function|if|in|select|then|time"
    r"|until|while)(?![^ \t])"
)
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(?:\[[^\]]*\])?\+?=")


def split_words(text: str) -> tuple[str, ...]:
    """The words of a line by POSIX quoting rules; nothing is expanded.

    Shell syntax outside quotes is kept as ordinary characters: ask :func:`needs_shell`
    first about a line that is to run. Raises ValueError for an unclosed quote and for NUL.
    """
    return tuple(_words(text, escape_stars=False))


def pattern_tokens(text: str) -> tuple[str, ...]:
    """The words of an argument pattern; a quoted or escaped star comes out as ``\\*``."""
    return tuple(_words(text, escape_stars=True))


def needs_shell(text: str) -> bool:
    """True when a line means something else to a shell than its words do.

    Anything unsure needs a shell: expansions, operators, globs, assignments in front,
    reserved words, a comment, a tilde, a newline, an unclosed quote.
    """
    first = text.lstrip(" \t")
    if not _ends_closed(text) or _ASSIGNMENT.match(first) or _RESERVED.match(first):
        return True
    quote, at, start = "", 0, True
    while at < len(text):
        character = text[at]
        if quote == "'":
            quote = "" if character == "'" else quote
        elif character == "\\":
            if text[at + 1] == "\n":
                return True
            at += 1
        elif quote:
            if character in "$`":
                return True
            quote = "" if character == '"' else quote
        elif character in "'\"":
            quote = character
        elif character in _SHELL or (start and character in "~#"):
            return True
        start = not quote and text[at] in " \t"
        at += 1
    return False


def _ends_closed(text: str) -> bool:
    try:
        split_words(text)
    except ValueError:
        return False
    return True


def _words(text: str, *, escape_stars: bool) -> list[str]:
    if "\0" in text:
        raise ValueError("a NUL byte in a line of words")
    star = "\\*" if escape_stars else "*"
    words: list[str] = []
    current: list[str] | None = None
    quote, at = "", 0
    while at < len(text):
        character = text[at]
        at += 1
        if not quote and character in " \t\n":
            if current is not None:
                words.append("".join(current))
                current = None
            continue
        current = [] if current is None else current
        if character == quote:
            quote = ""
        elif character == "\\" and quote != "'":
            character, at = _escaped(text, at, quote)
            current.append(star if character == "*" else character)
        elif not quote and character in "'\"":
            quote = character
        else:
            current.append(star if quote and character == "*" else character)
    if quote:
        raise ValueError(f"an unclosed {quote} in {text!r}")
    return words if current is None else [*words, "".join(current)]


def _escaped(text: str, at: int, quote: str) -> tuple[str, int]:
    """What a backslash stands for, and where reading goes on (POSIX 2.2.1 and 2.2.3)."""
    if at == len(text):
        raise ValueError(f"a backslash at the end of {text!r}")
    following = text[at]
    if following == "\n":
        return "", at + 1
    if quote and following not in '$`"\\':
        return "\\", at
    return following, at + 1
