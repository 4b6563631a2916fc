"""Hosts and addresses in one spelling, and which addresses are private.

Policy and request go through the same functions here, so that neither side can be spelled
past the other. Special-purpose networks are written out instead of asked from ``ipaddress``:
its answers differ between Python releases.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from ipaddress import AddressValueError, IPv4Address, IPv4Network, IPv6Address, IPv6Network

__all__ = [
    "Address",
    "Network",
    "Number",
    "address_number",
    "bases",
    "canonical_host",
    "granted_parts",
    "literal",
    "needs_own_entry",
    "network_needs_own_entry",
    "number_is_private",
    "number_is_public",
    "parse_ipv6",
    "private_networks",
    "public_networks",
    "translated",
    "unwrap",
    "unwrap_network",
]

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network
#: An address as its IP version and its number.
Number = tuple[int, int]

_LABEL = r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
_NAME = re.compile(rf"(?:{_LABEL}\.)*{_LABEL}\Z")
_OCTET = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_QUAD = re.compile(rf"(?:{_OCTET}\.){{3}}{_OCTET}\Z")
_NUMERIC = re.compile(r"(?:[0-9]+|0x[0-9a-f]*)\Z")
#: Characters that some resolvers read as a dot.
_OTHER_DOTS = ("\u3002", "\uff0e", "\uff61")

#: IANA special-purpose registries: not the public internet.
_PRIVATE: tuple[Network, ...] = tuple(
    IPv4Network(text)
    for text in (
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        "168.63.129.16/32",
    )
) + tuple(
    IPv6Network(text)
    for text in (
        "::/127", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20",
        "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
    )
)  # fmt: skip

#: Link-local and the metadata services of clouds: whoever reaches them has the machine's
#: credentials, so that no broad entry covers them.
_OWN_ENTRY: tuple[Network, ...] = (
    IPv4Network("169.254.0.0/16"),
    IPv4Network("100.100.100.200/32"),
    IPv4Network("168.63.129.16/32"),
    IPv4Network("192.0.0.192/32"),
    IPv6Network("fe80::/10"),
    IPv6Network("fd00:ec2::/32"),
    IPv6Network("fd20:ce::/32"),
)

#: IPv6 networks whose addresses are IPv4 ones, see :func:`unwrap`.
_WRAPPING = tuple(
    IPv6Network(text)
    for text in ("::/96", "::ffff:0:0/96", "64:ff9b::/96", "2001::/32", "2002::/16")
)
_PLAIN = IPv6Network("::/127")

_MAPPED = 0xFFFF
_NAT64 = 0x64FF9B << 64
_LOW_32 = (1 << 32) - 1
#: All of IPv6 that is given to anybody begins with these three bits: 2000::/3.
_GIVEN = 1


def translated(network: Network) -> tuple[IPv6Network, ...]:
    """An IPv4 network inside NAT64 and 6to4, by which it may be reached; nothing for IPv6."""
    if isinstance(network, IPv6Network):
        return ()
    return tuple(
        IPv6Network((base | int(network.network_address) << shift, length + network.prefixlen))
        for base, shift, length in ((_NAT64 << 32, 0, 96), (0x2002 << 112, 80, 16))
    )


_OWN_WRAPPED = tuple(each for network in _OWN_ENTRY for each in translated(network))


def _spans(networks: tuple[Network, ...], version: int) -> tuple[tuple[int, int], ...]:
    return tuple(
        sorted(
            (int(network.network_address), int(network.broadcast_address))
            for network in networks
            if network.version == version
        )
    )


def private_networks() -> tuple[Network, ...]:
    """The networks whose addresses are private; disjoint."""
    return _PRIVATE


def public_networks() -> tuple[Network, ...]:
    """The networks of the public internet, as they are written on the wire: none that wraps
    IPv4 addresses is among them."""
    parts: list[Network] = [IPv4Network("0.0.0.0/0"), IPv6Network("2000::/3")]
    for hole in (*_PRIVATE, *_WRAPPING):
        parts = [piece for part in parts for piece in _less(part, hole)]
    return tuple(parts)


def bases(name: str) -> Iterator[str]:
    """Each ``base`` for which ``*.base`` stands for a name: that below its first label first."""
    at = name.find(".") + 1
    while at:
        yield name[at:]
        at = name.find(".", at) + 1


def unwrap_network(network: Network) -> Network:
    """An IPv6 network that only wraps IPv4 addresses, as the IPv4 network.

    Raises ValueError where there is no such network (6to4, Teredo).
    """
    if isinstance(network, IPv4Network) or network.overlaps(_PLAIN):
        return network
    if not any(network.subnet_of(wrap) for wrap in _WRAPPING):
        return network
    first = unwrap(network.network_address)
    if network.prefixlen == 128:
        return IPv4Network(int(first))
    if network.prefixlen < 96:
        raise ValueError(f"{network} wraps IPv4 addresses; write the IPv4 network")
    return IPv4Network((int(first), network.prefixlen - 96))


def _within(spans: tuple[tuple[int, int], ...], number: int) -> bool:
    """Whether a number lies in one of some sorted, disjoint spans."""
    at = bisect_right(spans, (number, 1 << 128)) - 1
    return at >= 0 and number <= spans[at][1]


_PRIVATE_SPANS = {version: _spans(_PRIVATE, version) for version in (4, 6)}
_OWN_SPANS = {version: _spans(_OWN_ENTRY, version) for version in (4, 6)}


def canonical_host(text: str) -> str:
    """A host name as lower-case A-labels, or an address in its one spelling.

    One trailing dot is dropped; IPv4 inside IPv6 comes out as IPv4. Raises ValueError for
    anything malformed or that two resolvers could read differently: numeric spellings such
    as ``127.1``, zone ids, control characters, look-alikes that turn into ASCII.
    """
    if _QUAD.match(text):
        return text
    if not text or len(text) > 1000:
        raise ValueError("a host is empty or too long")
    if ":" in text:
        return str(unwrap(parse_ipv6(text)))
    name = text if text.isascii() else _a_labels(text)
    name = name.lower().removesuffix(".")
    if len(name) > 253 or not _NAME.match(name):
        raise ValueError(f"{text!r} is not a host name")
    last = name[name.rfind(".") + 1 :]
    if _NUMERIC.match(last) and not _QUAD.match(name):
        raise ValueError(
            f"{text!r} is an ambiguous address; write it as four decimal numbers, 127.0.0.1"
        )
    return name


def literal(host: str) -> Address | None:
    """The address a canonical host stands for, or None for a name."""
    number = address_number(host)
    if number is None:
        return None
    return IPv4Address(number[1]) if number[0] == 4 else IPv6Address(number[1])


def address_number(host: str) -> Number | None:
    """The address a canonical host stands for as version and number, or None for a name."""
    if ":" in host:
        return 6, int(IPv6Address(host))
    if not _QUAD.match(host):
        return None
    one, two, three, four = host.split(".")
    return 4, int(one) << 24 | int(two) << 16 | int(three) << 8 | int(four)


def unwrap(ip: Address) -> Address:
    """The IPv4 address inside an IPv6 one: mapped, compatible, NAT64, 6to4 or Teredo."""
    if isinstance(ip, IPv4Address):
        return ip
    number = int(ip)
    if number >> 32 in (_MAPPED, _NAT64) or (number >> 32 == 0 and number > 1):
        return IPv4Address(number & _LOW_32)
    if number >> 112 == 0x2002:
        return IPv4Address(number >> 80 & _LOW_32)
    if number >> 96 == 0x20010000:
        return IPv4Address(~number & _LOW_32)
    return ip


def number_is_private(number: Number) -> bool:
    """True for the :func:`address_number` of what is not on the public internet.

    Private, loopback, link-local, shared, documentation, multicast, reserved, metadata.
    """
    return _within(_PRIVATE_SPANS[number[0]], number[1])


def number_is_public(number: Number) -> bool:
    """True for the :func:`address_number` of what is on the public internet.

    What is neither public nor private is an IPv6 address that nobody has been given, as those of
    overlay networks and of translators: no word grants it, and no name.
    """
    given = number[0] == 4 or number[1] >> 125 == _GIVEN
    return given and not number_is_private(number)


def needs_own_entry(number: Number) -> bool:
    """True for link-local and metadata addresses, which no broad entry grants."""
    return _within(_OWN_SPANS[number[0]], number[1])


def network_needs_own_entry(network: Network) -> bool:
    """True when all of a network lies inside one that :func:`needs_own_entry`."""
    low, high = int(network.network_address), int(network.broadcast_address)
    return any(first <= low and high <= last for first, last in _OWN_SPANS[network.version])


def granted_parts(network: Network) -> tuple[Network, ...]:
    """What a network grants: all of it, less what :func:`needs_own_entry`.

    The same addresses inside NAT64 and 6to4 networks are left out as well.
    """
    if network_needs_own_entry(network):
        return (network,)
    parts = [network]
    for hole in (*_OWN_ENTRY, *_OWN_WRAPPED):
        parts = [piece for part in parts for piece in _less(part, hole)]
    return tuple(parts)


def _less(network: Network, hole: Network) -> list[Network]:
    if isinstance(network, IPv4Network) and isinstance(hole, IPv4Network):
        if not network.overlaps(hole):
            return [network]
        return [] if network.subnet_of(hole) else [*network.address_exclude(hole)]
    if isinstance(network, IPv6Network) and isinstance(hole, IPv6Network):
        if not network.overlaps(hole):
            return [network]
        return [] if network.subnet_of(hole) else [*network.address_exclude(hole)]
    return [network]


def parse_ipv6(text: str) -> IPv6Address:
    """An IPv6 address in any spelling. Raises ValueError, also for zone ids."""
    if "%" in text:
        raise ValueError(f"{text!r} has a zone id; write the address without it")
    try:
        return IPv6Address(text)
    except AddressValueError:
        raise ValueError(f"{text!r} is not an IPv6 address") from None


def _a_labels(text: str) -> str:
    """ASCII form of an international name; each foreign label must stay foreign.

    A label that turns into plain ASCII (full-width digits, the Kelvin sign) is a forgery of
    another name, and a look-alike dot moves a label boundary.
    """
    if any(dot in text for dot in _OTHER_DOTS):
        raise ValueError(f"{text!r} has a look-alike dot")
    labels = []
    for label in text.split("."):
        mapped = label if label.isascii() else _a_label(label, text)
        labels.append(mapped)
    return ".".join(labels)


def _a_label(label: str, text: str) -> str:
    """One label by IDNA 2008. Nothing is mapped but case and composition: what only turns
    into a name by mapping is another spelling that a reader takes for that name."""
    # Loaded here: only foreign names need their tables.
    import unicodedata

    import idna

    folded = unicodedata.normalize("NFC", label.lower())
    plain = unicodedata.normalize("NFKC", folded)
    if plain.isascii():
        raise ValueError(f"{text!r} has a look-alike of {plain!r}; write {plain!r}")
    try:
        if len(folded) > 63:
            raise idna.IDNAError("a label is too long")
        return idna.alabel(folded).decode("ascii")
    except UnicodeError:
        raise ValueError(f"{text!r} is not a host name") from None
