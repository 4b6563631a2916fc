"""Destinations, paths, globs and words are read the one way the docs say."""

from __future__ import annotations

import shlex

import pytest

from axonkernel.policy.globs import argument_glob, is_glob, path_glob
from axonkernel.policy.match import (
    needs_shell,
    normalize,
    parse_destination,
    pattern_tokens,
    split_words,
)


@pytest.mark.parametrize(
    ("text", "canonical", "kind"),
    [
        ("api.github.com", "api.github.com:443", "name"),
        ("API.github.com.:8443", "api.github.com:8443", "name"),
        ("api.github.com:443/udp", "api.github.com:443/udp", "name"),
        ("api.github.com/udp", "api.github.com:443/udp", "name"),
        ("api.github.com:443/tcp", "api.github.com:443", "name"),
        ("*.example.test:8000-8100", "*.example.test:8000-8100", "wildcard"),
        ("10.0.0.5:22", "10.0.0.5:22", "ip"),
        ("10.0.0.5/32", "10.0.0.5:443", "ip"),
        ("10.0.0.0/8", "10.0.0.0/8:443", "cidr"),
        ("10.0.0.0/8:*", "10.0.0.0/8:*", "cidr"),
        ("[::1]:80", "[::1]:80", "ip"),
        ("::1", "[::1]:443", "ip"),
        ("[fd00::/8]:443", "[fd00::/8]:443", "cidr"),
        ("fd00::/8:53/udp", "[fd00::/8]:53/udp", "cidr"),
        ("[::ffff:1.2.3.4]:80", "1.2.3.4:80", "ip"),
        ("::ffff:1.2.3.0/120", "1.2.3.0/24:443", "cidr"),
        ("*", "*:443", "any"),
        ("*:*", "*:*", "any"),
        ("public:80", "public:80", "public"),
        ("private", "private:443", "private"),
        ("0.0.0.0/0:80", "0.0.0.0/0:80", "cidr"),
    ],
)
def test_destinations_have_one_spelling(text: str, canonical: str, kind: str) -> None:
    """Port 443 and TCP are the defaults, and the canonical text reads back as itself."""
    parsed = parse_destination(text)
    assert (parsed.canonical, parsed.kind) == (canonical, kind)
    assert parse_destination(parsed.canonical) == parsed


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("https://api.github.com", "URL"),
        ("*example.test", "whole first label"),
        ("ex*mple.test", "whole first label"),
        ("a.*.test", "whole first label"),
        ("*.10.0.0.1", "names, not addresses"),
        ("example.test:0", "1 to 65535"),
        ("example.test:70000", "1 to 65535"),
        ("example.test:90-80", "upward"),
        ("example.test:", "after the host"),
        ("example.test:http", "after the host"),
        ("example.test:443/sctp", "tcp or udp"),
        ("10.1.2.3/8", "10.0.0.0/8"),
        ("10.0.0.0/33", "not a network"),
        ("127.1:80", "four decimal numbers"),
        ("localhost:80", "127.0.0.1:PORT"),
        ("2001:db8::1:443", "ambiguous"),
        ("[10.0.0.1]:80", "IPv6"),
        ("2002::/16", "IPv4 network"),
        ("user@example.test", "not a host name"),
        ("", "empty"),
        ("example.test\0:443", "not a host name"),
    ],
)
def test_a_bad_destination_says_how_to_write_it(text: str, says: str) -> None:
    """Each fault names what is wrong or the right spelling."""
    with pytest.raises(ValueError, match=says):
        parse_destination(text)


@pytest.mark.parametrize(
    ("path", "plain"),
    [
        ("/", "/"),
        ("//", "/"),
        ("/a/b", "/a/b"),
        ("//a/../b", "/b"),
        ("/a/./b/", "/a/b"),
        ("/../../etc", "/etc"),
        ("/a/..", "/"),
        ("/a/.hidden", "/a/.hidden"),
        ("/a/..b", "/a/..b"),
    ],
)
def test_paths_are_normalised_by_component(path: str, plain: str) -> None:
    """Dots and doubled slashes go; dots in names stay."""
    assert normalize(path) == plain


@pytest.mark.parametrize("path", ["", "a", "./a", "~/a", "/a\0b"])
def test_relative_paths_and_nul_have_no_normal_form(path: str) -> None:
    """Nothing is guessed about what a relative path counts from."""
    with pytest.raises(ValueError):
        normalize(path)


@pytest.mark.parametrize(
    ("pattern", "text", "matches"),
    [
        ("status", "status", True),
        ("status", "statusx", False),
        ("status*", "statusx", True),
        ("*", "", True),
        ("*", "a/b\nc", True),
        ("a*b*c", "a--b--c", True),
        ("a*b*c", "a--c--b", False),
        ("*.py", "x.py", True),
        ("*.py", "x.PY", False),
        ("ab*ba", "aba", False),
        ("[ab]", "a", False),
        ("[ab]", "[ab]", True),
        ("a?", "ab", False),
        ("\\*", "*", True),
        ("\\*", "a", False),
        ("a.b", "axb", False),
    ],
)
def test_argument_globs(pattern: str, text: str, matches: bool) -> None:
    """``*`` matches anything, everything else is itself; both ends are anchored."""
    assert argument_glob(pattern)(text) is matches


def test_a_hostile_argument_ends() -> None:
    """A pattern with many stars does not blow up on a megabyte of near misses: it returns."""
    matches = argument_glob("*a*a*a*a*a*a*b")
    assert not matches("a" * 1_000_000 + "c")


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/w/*.key", "/w/a.key", True),
        ("/w/*.key", "/w/b/a.key", False),
        ("/w/**/*.key", "/w/a.key", True),
        ("/w/**/*.key", "/w/b/c/a.key", True),
        ("/w/**", "/w/a/b", True),
        ("/w/**", "/w", False),
        ("/w/**/x/**", "/w/a/x/y", True),
        ("/w/**/x/**", "/w/a/x", False),
        ("/w/*/x", "/w/a/x", True),
        ("/w/*/x", "/w/a/b/x", False),
        ("/w/[id]/*", "/w/[id]/p.ts", True),
        ("/w/[id]/*", "/w/i/p.ts", False),
        ("/w/\\*", "/w/*", True),
        ("/w/\\*", "/w/a", False),
        ("/w/*.key", "/w/a.key/b", False),
        ("/w/a**b", "/w/a/b", False),
        ("/**", "/a", True),
    ],
)
def test_path_globs(pattern: str, path: str, matches: bool) -> None:
    """``*`` stays in a segment, ``**`` crosses them, brackets are ordinary."""
    assert path_glob(pattern)(path) is matches


def test_only_a_star_makes_a_glob() -> None:
    """Names with other metacharacters are literal paths."""
    assert is_glob("/w/*.key")
    assert not any(map(is_glob, ["/w/[id]", "/w/a?", "/w/{a,b}", "/w/\\*"]))


@pytest.mark.parametrize(
    "line", ["a b", "a 'b c' d", "a\\ b", '"a\\nb\\""', "a''b", "  x  ", "'' a", 'a"b c"d', ""]
)
def test_words_split_as_posix_says(line: str) -> None:
    """Quotes and backslashes as the standard library's own POSIX splitter has them."""
    assert split_words(line) == tuple(shlex.split(line))


@pytest.mark.parametrize("line", ["a 'b", 'a "b', "a\\", "a\0b"])
def test_an_unclosed_line_has_no_words(line: str) -> None:
    """A quote left open is a fault, not a guess."""
    with pytest.raises(ValueError):
        split_words(line)


def test_a_quoted_star_in_a_pattern_is_a_star() -> None:
    """Quotes and backslashes take a star its meaning."""
    assert pattern_tokens(r"push '*' \* a* 'x y'") == ("push", r"\*", r"\*", "a*", "x y")


@pytest.mark.parametrize(
    "line",
    [
        "git log | head", "a; b", "a && b", "a & b", "a > f", "a < f", "echo $(id)", "echo `id`",
        'echo "$HOME"', 'echo "`id`"', "cat <(id)", "A=1 git", "A+=1 git", "~/x", "# x", "if x",
        "! x", "[[ x ]]", "echo *", "echo a?", "echo [a]", "echo {a,b}", "(a)", "a\nb", "a\\\nb",
        "echo 'x", "a\\",
    ],
)  # fmt: skip
def test_shell_syntax_needs_a_shell(line: str) -> None:
    """Everything a shell would act on, and everything unsure."""
    assert needs_shell(line)


@pytest.mark.parametrize(
    "line",
    [
        "git log", "echo '$(id)'", "echo '*'", 'echo "*"', "echo \\*", "git A=1", "a~b", "a#b",
        "'if' x", "''~", "a\tb", 'echo "<(x)"', "printf %s \u2028", "",
    ],
)  # fmt: skip
def test_quoted_and_plain_text_does_not(line: str) -> None:
    """Quoted metacharacters and ordinary words stay words: no false alarms."""
    assert not needs_shell(line)
