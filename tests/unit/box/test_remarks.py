"""Lines about a box's end."""

from __future__ import annotations

from axonkernel.box.model import BoxResult, Refusal
from axonkernel.box.remarks import remarks


def test_names_cannot_dress_up_a_line() -> None:
    """Controls, line breaks and bidi marks of a name are written out; an ordinary name is not."""
    made = ("name.made", "/w/\x1b[31m\nenforced: all\u202e.key")
    (line,) = remarks(BoxResult(0, "exit", kept=(made, ("name.made", "/w/plain"))))
    assert "/w/\\x1b[31m\\nenforced: all\\u202e.key, /w/plain" in line and line.isprintable()


def test_refusals_are_told_as_a_policy_writes_them() -> None:
    """Destinations with the names that led there, names, and private answers; what was not told
    apart is no destination."""
    denied = (
        Refusal("192.0.2.1", "tcp", 443, "a.test"),
        Refusal("2001:db8::1", "udp", 53),
        Refusal("", "dns", 0, "b.test"),
        Refusal("", "dns/TXT", 0, "c.test"),
        Refusal("10.0.0.1", "dns", 0, "d.test"),
        Refusal("", "", 0, times=9),
    )
    (line,) = remarks(BoxResult(0, denied=denied))
    assert line.partition(": ")[2] == (
        "192.0.2.1:443 (a.test), [2001:db8::1]:53/udp, the name b.test, the name c.test (TXT), "
        "the address 10.0.0.1 of d.test (private or denied)"
    )


def test_what_the_relay_refuses_is_not_said_to_be_ungranted() -> None:
    """A granted name that the proxy or the TLS check refused has a line of its own."""
    proxied = Refusal("", "proxy-403", 443, "granted.test")
    ungranted, relayed = remarks(BoxResult(0, denied=(proxied, Refusal("192.0.2.1", "tcp", 443))))
    assert ungranted == "refused, as net.allow does not grant it: 192.0.2.1:443"
    assert relayed.endswith("granted name: granted.test:443 by net.proxy, with status 403")
