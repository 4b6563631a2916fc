"""Hosts have one spelling, and every road to a private address is seen."""

from __future__ import annotations

import pytest

from axonkernel.policy.hosts import (
    address_number,
    canonical_host,
    literal,
    needs_own_entry,
    number_is_private,
    number_is_public,
)


@pytest.mark.parametrize(
    ("spelled", "canonical"),
    [
        ("api.example.test", "api.example.test"),
        ("API.Example.test.", "api.example.test"),
        ("bücher.example", "xn--bcher-kva.example"),
        ("BÜCHER.example", "xn--bcher-kva.example"),
        ("xn--bcher-kva.example", "xn--bcher-kva.example"),
        ("stra\u00dfe.example", "xn--strae-oqa.example"),
        ("bu\u0308cher.example", "xn--bcher-kva.example"),
        ("\u65e5\u672c.example", "xn--wgv71a.example"),
        ("_dmarc.example.test", "_dmarc.example.test"),
        ("127.0.0.1", "127.0.0.1"),
        ("127.0.0.1.", "127.0.0.1"),
        ("2001:DB8:0::1", "2001:db8::1"),
        ("1e100.net", "1e100.net"),
    ],
)
def test_a_host_has_one_spelling(spelled: str, canonical: str) -> None:
    """Case, one trailing dot, international labels and zero runs are spelling only."""
    assert canonical_host(spelled) == canonical
    assert canonical_host(canonical) == canonical


@pytest.mark.parametrize(
    "text",
    [
        "2130706433", "0x7f.1", "0177.0.0.1", "127.1", "0", "0x7f000001", "1.2.3.4.5",
        "256.1.1.1", "01.2.3.4", "１２７.0.0.1", "①２７.0.0.1", "a.1", "a.0x1",
    ],
)  # fmt: skip
def test_numeric_spellings_are_refused(text: str) -> None:
    """What a resolver would turn into an address has to be written as one."""
    with pytest.raises(ValueError, match=r"ambiguous|look-alike|not a host"):
        canonical_host(text)


@pytest.mark.parametrize(
    "text",
    [
        "", ".", "a..b", "api.example.test..", ".api.example.test", "-a.test", "a-.test",
        "a b.test", "a\0b.test", "127.0.0.1\0.example.test", "a%00.test", "a\r\nb.test",
        "a\tb.test", "a\x7fb.test", "a/b", "user@host.test", "host.test:443", "*.a.test",
        "a.\u212aube.test", "\u2603.test", "\u05d0a.test", "a\u200db\u00fc.test",
        "a\u3002test", "a" * 64 + ".test",
        ".".join(["a" * 60] * 5), "fe80::1%eth0", "::1::", "12345::", "[::1]",
    ],
)  # fmt: skip
def test_malformed_hosts_are_refused(text: str) -> None:
    """Control characters, ports, zones, look-alikes and broken labels are no host."""
    with pytest.raises(ValueError):
        canonical_host(text)


@pytest.mark.parametrize(
    ("wrapped", "inner"),
    [
        ("::ffff:169.254.169.254", "169.254.169.254"),
        ("::ffff:a9fe:a9fe", "169.254.169.254"),
        ("0:0:0:0:0:ffff:7f00:1", "127.0.0.1"),
        ("::127.0.0.1", "127.0.0.1"),
        ("64:ff9b::7f00:1", "127.0.0.1"),
        ("2002:7f00:1::", "127.0.0.1"),
        ("2001:0:53aa:64c:0:fbff:80ff:fffe", "127.0.0.1"),
        ("::ffff:8.8.8.8", "8.8.8.8"),
    ],
)
def test_ipv4_inside_ipv6_comes_out(wrapped: str, inner: str) -> None:
    """Mapped, compatible, NAT64, 6to4 and Teredo forms are judged as what they hold."""
    assert canonical_host(wrapped) == inner


@pytest.mark.parametrize("text", ["::1", "::", "2001:db8::1", "fe80::1"])
def test_plain_ipv6_stays(text: str) -> None:
    """Addresses that wrap nothing are left alone, ``::1`` above all."""
    assert canonical_host(text) == text


def is_private(text: str) -> bool:
    number = address_number(canonical_host(text))
    assert number is not None
    return number_is_private(number)


@pytest.mark.parametrize(
    "text",
    [
        "10.1.2.3", "127.0.0.1", "192.168.0.1", "172.31.0.1", "169.254.1.1", "100.64.0.1",
        "0.0.0.0", "224.0.0.1", "255.255.255.255", "::1", "::", "fe80::1", "fd00::1", "ff02::1",
        "64:ff9b::a9fe:a9fe", "::169.254.169.254", "2002:a9fe:a9fe::", "168.63.129.16",
        "2001:db8::1",
    ],
)  # fmt: skip
def test_private_addresses(text: str) -> None:
    """Whatever is not the public internet is private, wrapped or not (probed in cases.md)."""
    assert is_private(text)


@pytest.mark.parametrize("text", ["8.8.8.8", "1.1.1.1", "172.32.0.1", "2606:4700::1", "11.0.0.1"])
def test_public_addresses(text: str) -> None:
    """The neighbours of private networks are public."""
    assert not is_private(text) and is_public(text)


@pytest.mark.parametrize("text", ["200::5", "::ffff:0:10.0.0.5", "4000::1", "64:ff9a::1"])
def test_what_nobody_was_given_is_neither(text: str) -> None:
    """Overlay networks (200::/7), IPv4 behind a translator (RFC 2765), what is kept back."""
    assert not is_private(text) and not is_public(text)


def is_public(text: str) -> bool:
    number = address_number(canonical_host(text))
    assert number is not None
    return number_is_public(number)


@pytest.mark.parametrize(
    ("text", "own"),
    [
        ("169.254.169.254", True),
        ("fd00:ec2::254", True),
        ("fe80::1", True),
        ("100.100.100.200", True),
        ("168.63.129.16", True),
        ("10.0.0.1", False),
        ("127.0.0.1", False),
        ("8.8.8.8", False),
    ],
)
def test_metadata_addresses_need_their_own_entry(text: str, own: bool) -> None:
    """Link-local and metadata addresses are told from other private ones."""
    number = address_number(text)
    assert number is not None
    assert needs_own_entry(number) is own


@pytest.mark.parametrize("name", ["example.test", "1e100.net", "a.b.c.d1"])
def test_a_name_is_not_an_address(name: str) -> None:
    """A name that ends in a digit is still a name."""
    assert literal(name) is None


def test_a_literal_is_its_address() -> None:
    """Both families come back as addresses."""
    assert str(literal("10.0.0.1")) == "10.0.0.1"
    assert str(literal("2001:db8::1")) == "2001:db8::1"
