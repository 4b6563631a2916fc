"""What holds for every policy and every request."""

from __future__ import annotations

import re
from typing import Any

from attrs import evolve, fields
from hypothesis import given
from hypothesis import strategies as st

from axonkernel.policy.decide import compile
from axonkernel.policy.explain import agent_text, explain
from axonkernel.policy.globs import GlobTable, PathGlobs, argument_glob, path_glob
from axonkernel.policy.model import (
    ArgsRules,
    EnvPolicy,
    FsPolicy,
    NetPolicy,
    Policy,
    ShellPolicy,
    ToolRules,
)
from axonkernel.policy.request import (
    CODES,
    STRICTNESS,
    AnyRequest,
    ConnectRequest,
    EnvRequest,
    PathRequest,
    ProcessRequest,
    ShellRequest,
    Subject,
    ToolRequest,
)

texts = st.text(max_size=12)
odd = st.sampled_from(
    ("", "\0", "git", "/", "/srv/a", "*", "a.test", "127.1", "env", "xargs", "-", "--", "A=b")
)
words = st.one_of(texts, odd)
subjects = st.builds(
    Subject,
    st.sampled_from(("read", "write", "host", "argv", "secret")),
    st.one_of(words, st.lists(words, max_size=3).map(tuple)),
)
requests: st.SearchStrategy[AnyRequest] = st.one_of(
    st.builds(PathRequest, words, st.booleans()),
    st.builds(ConnectRequest, words, st.integers(-1, 70_000), st.sampled_from(("tcp", "udp"))),
    st.builds(
        ProcessRequest,
        st.lists(words, max_size=5).map(tuple),
        st.sampled_from(("/", "/srv", "srv", "")),
        st.booleans(),
        st.lists(words, max_size=2).map(tuple),
        st.one_of(st.none(), st.sampled_from(("/usr/bin/git", "relative"))),
    ),
    st.builds(ShellRequest, words),
    st.builds(EnvRequest, words),
    st.builds(ToolRequest, words, texts, st.lists(subjects, max_size=2).map(tuple)),
)

paths = st.sampled_from(("/", "/srv", "/srv/a", "/srv/a/b", "/tmp/x"))
globs = st.sampled_from(("/srv/*", "/**/b", "/srv/**", "/srv/a"))
hosts = st.sampled_from(("a.test:443", "*.a.test:*", "*:443", "10.0.0.0/8:443", "public:80"))
names = st.sampled_from(("git", "g*", "/usr/bin/git", "env", "xargs"))
patterns = st.sampled_from(("push", "push *", "* x", "--force*", ""))


def _list(items: st.SearchStrategy[str]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(items, max_size=3).map(tuple)


args = st.builds(
    ArgsRules,
    allow=st.one_of(st.none(), _list(patterns)),
    deny=_list(patterns),
    escalate=_list(patterns),
)
policies = st.builds(
    Policy,
    default=st.sampled_from(("allow", "deny")),
    fs=st.one_of(
        st.none(), st.builds(FsPolicy, read=_list(paths), write=_list(paths), deny=_list(globs))
    ),
    net=st.one_of(
        st.none(),
        st.builds(NetPolicy, allow=_list(hosts), deny=_list(hosts), escalate=_list(hosts)),
    ),
    shell=st.one_of(
        st.none(),
        st.builds(
            ShellPolicy,
            allow=_list(names),
            deny=_list(names),
            args=st.one_of(st.just(()), args.map(lambda rules: (("git", rules),))),
        ),
    ),
    env=st.one_of(st.none(), st.builds(EnvPolicy, allow=_list(st.sampled_from(("A", "A*"))))),
    tools=st.one_of(st.none(), st.just(ToolRules((("*", "escalate"), ("a", "allow"))))),
)

likely_requests: st.SearchStrategy[AnyRequest] = st.one_of(
    st.builds(
        PathRequest,
        st.sampled_from(("/srv/a/b/c", "/srv/b", "/srv", "/tmp/x/y", "/etc")),
        st.booleans(),
    ),
    st.builds(ConnectRequest, st.sampled_from(("a.test", "b.a.test", "10.0.0.1")), st.just(443)),
    st.builds(
        lambda head, tail: ProcessRequest((*head, *tail)),
        st.sampled_from((("git",), ("/usr/bin/git",), ("env", "git"), ("xargs", "git"))),
        st.lists(st.sampled_from(("push", "x", "--force")), max_size=3),
    ),
    st.builds(EnvRequest, st.sampled_from(("A", "AB", "B"))),
)
any_requests = st.one_of(requests, likely_requests)


@given(policies, any_requests)
def test_every_request_gets_one_answer(policy: Policy, request: AnyRequest) -> None:
    """Never an exception, always the same, always a documented code."""
    first = compile(policy).decide(request)
    assert first == compile(policy).decide(request)
    assert first.verdict in STRICTNESS
    assert first.code in CODES
    assert first.rule
    if first.code == "internal":
        assert first.verdict == "deny"


@given(policies, any_requests)
def test_explaining_never_fails_and_agrees(policy: Policy, request: AnyRequest) -> None:
    """Both texts exist for every request, and the decision is the same."""
    ruleset = compile(policy)
    explanation = explain(ruleset, request)
    assert explanation.decision == ruleset.decide(request)
    assert agent_text(explanation.decision, request)


def _has_nul(value: Any) -> bool:
    if isinstance(value, str):
        return "\0" in value
    return isinstance(value, tuple) and any(map(_has_nul, value))


@given(requests)
def test_a_nul_anywhere_is_denied(request: AnyRequest) -> None:
    """Even without a policy."""
    parts = [getattr(request, field.name) for field in fields(type(request))]
    if any(map(_has_nul, parts)):
        assert compile(Policy()).decide(request).verdict == "deny"


def _reversed(value: Any) -> Any:
    """A block with each of its lists turned around."""
    if isinstance(value, tuple):
        return tuple(_reversed(item) for item in reversed(value)) if value else value
    return value


def _shuffled(policy: Policy) -> Policy:
    changes: dict[str, Any] = {}
    for block in ("fs", "net", "env"):
        if (rules := getattr(policy, block)) is not None:
            turned = {
                field.name: _reversed(getattr(rules, field.name)) for field in fields(type(rules))
            }
            changes[block] = evolve(rules, **turned)
    if (shell := policy.shell) is not None:
        turned_args = tuple(
            (name, ArgsRules(_reversed(each.allow), _reversed(each.deny), _reversed(each.escalate)))
            for name, each in shell.args
        )
        changes["shell"] = evolve(
            shell, allow=_reversed(shell.allow), deny=_reversed(shell.deny), args=turned_args
        )
    return evolve(policy, **changes)


@given(policies, any_requests)
def test_the_order_of_lines_never_matters(policy: Policy, request: AnyRequest) -> None:
    """Every list turned around gives the same verdict."""
    ours, turned = compile(policy).decide(request), compile(_shuffled(policy)).decide(request)
    assert (ours.verdict, ours.code) == (turned.verdict, turned.code)


@given(policies, any_requests, globs, hosts, names, patterns)
def test_a_deny_never_widens(
    policy: Policy, request: AnyRequest, glob: str, host: str, name: str, pattern: str
) -> None:
    """Whatever is added to the denying lists, no verdict becomes less strict."""
    changes: dict[str, Any] = {}
    if policy.fs is not None:
        changes["fs"] = evolve(policy.fs, deny=(*policy.fs.deny, glob))
    if policy.net is not None:
        changes["net"] = evolve(policy.net, deny=(*policy.net.deny, host))
    if policy.shell is not None:
        rules = dict(policy.shell.args).get("git", ArgsRules())
        more = evolve(rules, deny=(*rules.deny, pattern))
        changes["shell"] = evolve(
            policy.shell, deny=(*policy.shell.deny, name), args=(("git", more),)
        )
    before = compile(policy).decide(request).verdict
    after = compile(evolve(policy, **changes)).decide(request).verdict
    assert STRICTNESS[after] >= STRICTNESS[before]


literals = st.text(alphabet="ab/\n", max_size=6)
glob_texts = st.lists(st.one_of(literals, st.just("*")), max_size=5).map("".join)


def _by_regex(pattern: str) -> re.Pattern[str]:
    parts = (".*" if part == "*" else re.escape(part) for part in re.split(r"(\*)", pattern))
    return re.compile("".join(parts) + r"\Z", re.DOTALL)


@given(glob_texts, literals)
def test_argument_globs_agree_with_regular_expressions(pattern: str, text: str) -> None:
    """The linear matcher against the obvious one."""
    assert argument_glob(pattern)(text) == bool(_by_regex(pattern).match(text))


@given(st.lists(glob_texts, max_size=6), literals)
def test_a_table_finds_what_each_pattern_alone_matches(found: list[str], text: str) -> None:
    """Buckets lose nothing and invent nothing."""
    table = GlobTable((pattern, at) for at, pattern in enumerate(found))
    alone = [at for at, pattern in enumerate(found) if argument_glob(pattern)(text)]
    assert sorted(table.find(text)) == alone


segments = st.sampled_from(("a", "b", "ab", "*", "a*", "*b", "**"))
path_patterns = st.lists(segments, min_size=1, max_size=5).map(lambda found: "/" + "/".join(found))
plain_paths = st.lists(st.sampled_from(("a", "b", "ab", "ba")), min_size=1, max_size=5).map(
    lambda found: "/" + "/".join(found)
)


def _path_matches(pattern: list[str], path: list[str]) -> bool:
    """The path dialect, spelled out by recursion."""
    if not pattern:
        return not path
    head, *rest = pattern
    if head == "**":
        least = 0 if rest else 1
        return any(_path_matches(rest, path[count:]) for count in range(least, len(path) + 1))
    return bool(path) and argument_glob(head)(path[0]) and _path_matches(rest, path[1:])


@given(path_patterns, plain_paths)
def test_path_globs_agree_with_their_definition(pattern: str, path: str) -> None:
    """The merged tree against recursion over segments."""
    wanted = _path_matches(pattern[1:].split("/"), path[1:].split("/"))
    assert path_glob(pattern)(path) == wanted


@given(st.lists(path_patterns, max_size=5), plain_paths)
def test_merged_path_globs_cover_matches_and_what_is_below(found: list[str], path: str) -> None:
    """Each pattern that matches the path or a folder above it, and no other."""
    parts = path[1:].split("/")
    wanted = {
        at
        for at, pattern in enumerate(found)
        for depth in range(1, len(parts) + 1)
        if _path_matches(pattern[1:].split("/"), parts[:depth])
    }
    table = PathGlobs((pattern, at) for at, pattern in enumerate(found))
    assert set(table.find(path)) == wanted
