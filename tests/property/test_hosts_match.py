"""Hosts are compared by label and by address, in any spelling of either side."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from axonkernel.policy.decide import Ruleset, compile
from axonkernel.policy.hosts import address_number, canonical_host, number_is_private
from axonkernel.policy.match import parse_destination
from axonkernel.policy.parse import parse
from axonkernel.policy.request import ConnectRequest

labels = st.from_regex(r"[a-z][a-z0-9-]{0,8}[a-z]", fullmatch=True)
names = st.lists(labels, min_size=2, max_size=4).map(".".join)
spellings = st.sampled_from((str, str.upper, str.title, lambda name: f"{name}."))
addresses = st.integers(0, (1 << 32) - 1).map(IPv4Address)
inner = st.sampled_from(
    ("127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.1.1", "172.16.0.1", "100.64.0.1",
     "0.0.0.0")
).map(IPv4Address)  # fmt: skip


def _allowing(*entries: str) -> Ruleset:
    return compile(parse({"net": {"allow": list(entries)}}))


def _verdict(ruleset: Ruleset, host: str) -> str:
    return ruleset.decide(ConnectRequest(host, 443)).verdict


@given(names, names, labels)
def test_a_wildcard_ends_at_a_label(base: str, other: str, label: str) -> None:
    """``*.base`` is what ends in ``.base``: never the base, never what only ends in its letters."""
    ruleset = _allowing(f"*.{base}")
    assert _verdict(ruleset, base) == "deny"
    assert _verdict(ruleset, f"{label}.{base}") == "allow"
    assert _verdict(ruleset, f"{other}.{base}") == "allow"
    assert _verdict(ruleset, f"{label}{base}") == "deny"
    for host in (other, f"{label}.{base}.{other}", f"{label}.{other}"):
        expected = "allow" if host.endswith(f".{base}") else "deny"
        assert _verdict(ruleset, host) == expected


@given(names, names, spellings, spellings)
def test_spelling_never_matters(
    one: str, two: str, spell_rule: object, spell_request: object
) -> None:
    """Case and a trailing dot, on either side."""
    assert callable(spell_rule) and callable(spell_request)
    ruleset = compile(parse({"net": {"allow": [spell_rule(one)]}}))
    assert _verdict(ruleset, spell_request(one)) == "allow"
    assert _verdict(ruleset, spell_request(two)) == ("allow" if one == two else "deny")


def _embedded(address: IPv4Address) -> list[str]:
    number = int(address)
    forms = [
        0xFFFF << 32 | number,
        0x64FF9B << 96 | number,
        0x2002 << 112 | number << 80,
        0x2002 << 112 | number << 80 | 0x1234,
        0x20010000 << 96 | 0x5555 << 32 | (~number & 0xFFFFFFFF),
    ]
    if number > 1:
        forms.append(number)
    return [spelled for form in forms for spelled in _spelled(IPv6Address(form), address)]


def _spelled(address: IPv6Address, low: IPv4Address) -> list[str]:
    texts = [str(address), address.exploded, str(address).upper()]
    if int(address) & 0xFFFFFFFF == int(low):
        texts.append(f"{':'.join(address.exploded.split(':')[:6])}:{low}")
    return texts


@given(inner)
def test_an_inner_address_is_reached_by_no_name_rule_in_any_form(address: IPv4Address) -> None:
    """Mapped, compatible, NAT64, 6to4 and Teredo, in every spelling."""
    broad = _allowing("*:*", "public:*", "*.test")
    own = _allowing(f"{address}:443")
    for text in (str(address), *_embedded(address)):
        number = address_number(canonical_host(text))
        assert number is not None and number_is_private(number)
        assert _verdict(broad, text) == "deny"
        assert _verdict(own, text) == "allow"
        assert (
            _verdict(compile(parse({"net": {"allow": True, "deny": [f"{address}:*"]}})), text)
            == "deny"
        )


@given(addresses)
def test_an_address_is_one_however_it_is_wrapped(address: IPv4Address) -> None:
    """The same form comes out, so that rules for it count."""
    for text in _embedded(address):
        assert canonical_host(text) == str(address)


@given(addresses, st.sampled_from("dec hex oct short2 short3 mixed pad".split()))
def test_other_spellings_of_an_address_are_no_host(address: IPv4Address, how: str) -> None:
    """What ``inet_aton`` would take and is no dotted quad is refused, in rules too."""
    number = int(address)
    one, two, three, four = number >> 24, number >> 16 & 255, number >> 8 & 255, number & 255
    text = {
        "dec": str(number),
        "hex": hex(number),
        "oct": f"0{number:o}",
        "short2": f"{one}.{number & 0xFFFFFF}",
        "short3": f"{one}.{two}.{number & 0xFFFF}",
        "mixed": f"{one:#x}.{two}.{three}.{four}",
        "pad": f"{one}.{two}.{three}.0{four:o}",
    }[how]
    with pytest.raises(ValueError):
        canonical_host(text)
    with pytest.raises(ValueError):
        parse_destination(f"{text}:443")
    assert _verdict(compile(parse({"net": {"allow": True}})), text) == "deny"


@given(st.text(st.characters(max_codepoint=0x2FFF), min_size=1, max_size=12))
def test_any_text_is_a_host_or_refused(text: str) -> None:
    """A canonical host is ASCII, and its own canonical form; nothing else raises."""
    try:
        host = canonical_host(text)
    except ValueError:
        return
    assert host.isascii() and host == host.lower()
    assert canonical_host(host) == host
