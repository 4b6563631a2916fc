"""One reading of a URL, for the decision and for the fetch."""

from __future__ import annotations

from urllib.parse import urlsplit

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from axonkernel.policy.decide import compile
from axonkernel.policy.parse import parse
from axonkernel.policy.request import Request, Subject
from axonkernel.policy.url import LONGEST_URL, contacted, parse_url


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("http://a.test", "http://a.test/"),
        ("HTTP://A.Test.:80/x", "http://a.test/x"),
        ("https://a.test:443?q", "https://a.test/?q"),
        ("https://a.test:8443/", "https://a.test:8443/"),
        ("https://bücher.example/ä?ö", "https://xn--bcher-kva.example/%C3%A4?%C3%B6"),
        ("https://a.test/a/../../b/%2e%2E/c/.", "https://a.test/c/"),
        ("https://a.test//a/./b", "https://a.test//a/b"),
        ("https://a.test/%7euser/%2f%zz".replace("%zz", "%2F"), "https://a.test/~user/%2F%2F"),
        ("https://a.test/?a[1]=2", "https://a.test/?a%5B1%5D=2"),
        ("http://[::1]:8080/", "http://[::1]:8080/"),
        ("http://[::FFFF:7f00:1]/", "http://127.0.0.1/"),
        ("http://evil.test#@allowed.test/", "http://evil.test/"),
        ("http://evil.test?@allowed.test/", "http://evil.test/?@allowed.test/"),
        ("http://evil.test/@allowed.test", "http://evil.test/@allowed.test"),
        ("http://a.test:0080/", "http://a.test/"),
    ],
)
def test_a_url_has_one_spelling(text: str, canonical: str) -> None:
    """Case, default ports, escapes, dot segments and fragments are spelling only."""
    assert str(parse_url(text)) == canonical
    assert parse_url(canonical) == parse_url(text)


MALFORMED = [
    "", "a.test", "a.test:443", "//evil.test", "http:///x", "http://", "http:/a.test/",
    "http:a.test", "ftp://a.test/", "file:///etc/passwd", "javascript:alert(1)", "unix://a/b",
    "http://allowed.test@evil.test/", "http://user:pw@a.test/", "http://@a.test/",
    "http://evil.test\\@allowed.test/", "http://allowed.test\\.evil.test/", "http:\\\\a.test\\",
    "http://allowed.test!evil.test/", "http://a.test%2eevil.test/", "http://a.test%00.b.test/",
    "http://a.test:/", "http://a.test:99999/", "http://a.test:0/", "http://a.test:-1/",
    "http://a.test:+80/", "http://a.test:80:90/", "http://a.test:80x/", "http://a.test:８０/",
    "http://a.test:" + "9" * 5000, "http://a b.test/", "http://a.test/a b", "http://a.test/\t",
    "http://a.test/\r\nHost: b.test", "http://a.test/\x00", "http://a.test/\x7f", " http://a.test/",
    "http://a.test/\n", "http://a.test/\u2028", "http://a.test/\u202e", "http://a.test/\u00a0",
    "http://a.test/\ud800", "http://a.test/%", "http://a.test/%4", "http://a.test/%gg",
    "http://a.test/<script>", 'http://a.test/"', "http://[a.test]/", "http://[::1/", "http://::1/",
    "http://[::1]x/", "http://[fe80::1%25eth0]/", "http://[127.0.0.1]/", "http://[]/",
    "http://2130706433/", "http://0x7f.1/", "http://127.1/", "http://１２７.0.0.1/",
    "http://a..test/", "http://.a.test/", "http://a.test../", "http://a\u3002test/",
    "http://*.a.test/", "http://a,b.test/", "http://[v1.x]/", "http://[::1][::2]/",
    "http://a.test/" + "a" * LONGEST_URL,
]  # fmt: skip


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: ascii(text)[:40])
def test_a_url_that_parsers_could_cut_elsewhere_is_refused(text: str) -> None:
    """User names, backslashes, control characters, odd ports, ambiguous hosts."""
    with pytest.raises(ValueError):
        parse_url(text)
    # Also under a policy that lets everything be reached.
    ruleset = compile(parse({"tools": {"*": True}, "net": {"allow": True}}))
    decision = ruleset.decide(Request.tool("http.fetch", subjects=[Subject("url", text)]))
    assert decision.verdict == "deny"
    assert decision.code in ("request.malformed", "request.too_complex")


_PIECES = st.sampled_from(
    """http:// https:// HTTP:// // / \\ @ : :80 :443 :99999 ? # [ ] % %2e %2F .. . ! a.test
    evil.test allowed.test 127.0.0.1 127.1 ::1 ä ß 。 １ \t \n \x00 ; & = + ~ | ^ user pw""".split(
        " "
    )
)
texts = st.one_of(
    st.lists(_PIECES, max_size=8).map("".join),
    st.lists(_PIECES, max_size=8).map(lambda parts: "http://a.test" + "".join(parts)),
    st.text(max_size=20).map(lambda text: f"https://{text}"),
)


@given(texts)
def test_every_parser_reads_the_same_url(text: str) -> None:
    """What is accepted means one thing to this parser, to the standard library and to httpx."""
    try:
        url = parse_url(text)
    except ValueError:
        return
    assert parse_url(str(url)) == url
    sent, split = httpx.URL(str(url)), urlsplit(str(url))
    assert sent.raw_host.decode() == split.hostname == url.host
    assert (sent.port or {"http": 80, "https": 443}[sent.scheme]) == url.port
    assert (split.port or {"http": 80, "https": 443}[split.scheme]) == url.port
    assert sent.raw_path == url.target.encode()
    assert not sent.userinfo and split.username is None


@given(texts)
def test_the_text_that_was_given_reads_the_same_too(text: str) -> None:
    """Not only the canonical spelling: an accepted text never hides another host from others."""
    try:
        url = parse_url(text)
    except ValueError:
        return
    given_host = urlsplit(text).hostname
    assert given_host is not None
    if given_host.isascii() and ":" not in given_host:
        assert given_host.lower().removesuffix(".") == url.host


@pytest.mark.parametrize(
    ("reference", "target"),
    [
        ("/y", "https://a.test:8443/y"),
        ("y?z", "https://a.test:8443/x/y?z"),
        ("//evil.test/", "https://evil.test/"),
        ("http://evil.test/", "http://evil.test/"),
        ("../../../y", "https://a.test:8443/y"),
        ("", "https://a.test:8443/x/"),
    ],
)
def test_a_reference_leads_somewhere_else(reference: str, target: str) -> None:
    """Relative, protocol-relative and absolute references."""
    assert str(parse_url("https://a.test:8443/x/").joined(reference)) == target


@pytest.mark.parametrize(
    "reference", ["\\\\evil.test/", "/\t/evil.test", "ftp://a.test/", "//a@b/"]
)
def test_an_odd_reference_leads_nowhere(reference: str) -> None:
    """A redirect is held to the same reading as a first request."""
    with pytest.raises(ValueError):
        parse_url("https://a.test/").joined(reference)


@pytest.mark.parametrize(
    ("url", "verdict"),
    [
        ("https://ok.test/repos/x", "allow"),
        ("https://OK.test:443/repos/./x", "allow"),
        ("https://ok.test/repos/../admin", "deny"),
        ("https://ok.test/repos/%2e%2e/admin", "deny"),
        ("https://ok.test:8443/repos/x", "deny"),
        ("http://ok.test/repos/x", "deny"),
        ("https://ok.test/admin", "deny"),
    ],
)
def test_patterns_of_a_tool_see_all_of_a_url(url: str, verdict: str) -> None:
    """A pattern on the path holds in every spelling of the path; net rules are asked as well."""
    policy = {
        "tools": {"http.fetch": {"allow": ["https://ok.test/repos/*"]}},
        "net": {"allow": ["ok.test:*"]},
    }
    from axonkernel.tools import builtin_tools

    tool = builtin_tools().get("http.fetch")
    assert tool is not None
    request = tool.bind({"url": url}, "/").request
    assert compile(parse(policy)).decide(request).verdict == verdict
    closed = compile(parse({**policy, "net": {"allow": ["other.test"]}}))
    assert closed.decide(request).verdict == "deny"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("https://h.test/x", ("h.test", 443, "tcp")),
        ("h.test", ("h.test", 80, "tcp")),
        ("H.Test.:81/a b", ("h.test", 81, "tcp")),
        ("ftp://h.test/{a,b}", ("h.test", 21, "tcp")),
        ("tftp://h.test", ("h.test", 69, "udp")),
        ("https://h.test?@e.test", ("h.test", 443, "tcp")),
        ("[::ffff:192.0.2.1]:8/x", ("192.0.2.1", 8, "tcp")),
        ("http://u@h.test/", None), ("http://{a,b}.test/", None), ("http://h.test[1-2]/", None),
        ("http://e.test\\@h.test/", None), ("x://h.test", None), ("ftp.h.test", None),
        ("http:///h.test", None), ("http:h.test", None), ("http://127.1/", None), ("", None),
        ("-x", None), ("http://h.test:0/", None), ("ht{t,x}p://h.test", None), ("h.test:x", None),
        ("http:\\\\h.test", None), ("http:/h.test", None), ("\thttp://h.test", None),
    ],
)  # fmt: skip
def test_where_a_client_connects(text: str, found: tuple[str, int, str] | None) -> None:
    """Only the host matters, and only where it can be told."""
    if found is not None:
        assert contacted(text) == found
        return
    with pytest.raises(ValueError, match=r"."):
        contacted(text)
