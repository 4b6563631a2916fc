"""Tools by name, patterns on their subjects, and the blocks their subjects fall under."""

from __future__ import annotations

from typing import Any

import pytest

from axonkernel.policy.decide import Stack, compile
from axonkernel.policy.model import (
    EnvPolicy,
    FsPolicy,
    NetPolicy,
    Policy,
    ShellPolicy,
    SubjectRules,
)
from axonkernel.policy.parse import parse
from axonkernel.policy.request import Decision, Request, Subject, ToolRequest


def ask(name: str, tools: dict[str, Any], *subjects: Subject, **args: Any) -> Decision:
    return compile(parse({"tools": tools})).decide(Request.tool(name, args, subjects=subjects))


def test_the_seed_map() -> None:
    """``fs.read`` allowed, ``fs.remove`` denied, everything else asked about."""
    tools = {"fs": {"read": True, "remove": False}, "*": "escalate"}
    assert ask("fs.read", tools).verdict == "allow"
    assert ask("fs.remove", tools).verdict == "deny"
    assert ask("fs.write", tools).verdict == "escalate"
    assert ask("web.get", tools).verdict == "escalate"


@pytest.mark.parametrize(
    ("name", "verdict", "rule"),
    [
        ("github.pr.open", "allow", "$.tools.github.pr.open"),
        ("github.pr.close", "escalate", '$.tools.github.pr["*"]'),
        ("github.pr.close.all", "escalate", '$.tools.github.pr["*"]'),
        ("github.issue.open", "deny", "$.tools.github.issue"),
        ("github.repo", "allow", '$.tools.github["*"]'),
        ("github", "allow", '$.tools.github["*"]'),
        ("git", "escalate", '$.tools["*"]'),
        ("githubx.pr.open", "escalate", '$.tools["*"]'),
    ],
)
def test_the_exact_name_beats_prefixes_beat_stars(name: str, verdict: str, rule: str) -> None:
    """By dotted segment, from the most specific to the outer ``*``."""
    tools = {
        "github": {"pr": {"open": True, "*": "escalate"}, "issue": False, "*": True},
        "*": "escalate",
    }
    decision = ask(name, tools)
    assert (decision.verdict, decision.rule) == (verdict, rule)


def test_a_level_without_a_star_falls_to_the_outer_one() -> None:
    """And to deny where there is none."""
    assert ask("fs.write", {"fs": {"read": True}, "*": True}).verdict == "allow"
    assert ask("fs.write", {"fs": {"read": True}}).verdict == "deny"


def test_patterns_on_the_typed_subject() -> None:
    """deny, then escalate, then a closed allow."""
    tools = {"mail.send": {"allow": ["*@ok.test"], "deny": ["boss@*"], "escalate": ["new@*"]}}
    for to, verdict in (
        ("a@ok.test", "allow"), ("boss@ok.test", "deny"), ("new@ok.test", "escalate"),
        ("a@evil.test", "deny"),
    ):  # fmt: skip
        assert ask("mail.send", tools, to=to).verdict == verdict, to
    assert ask("mail.send", tools).verdict == "deny"
    assert ask("mail.send", {"mail.send": {"deny": ["boss@*"]}}).verdict == "allow"


def test_every_subject_has_to_match() -> None:
    """One allowed subject does not carry another; one denied subject denies."""
    tools = {"copy": {"allow": ["/srv/*"]}}
    inside, outside = Subject("read", "/srv/a"), Subject("write", "/etc/a")
    assert ask("copy", tools, inside).verdict == "allow"
    assert ask("copy", tools, inside, outside).verdict == "deny"


POLICY = Policy(
    fs=FsPolicy(read=("/srv",), write=("/srv/out",)),
    net=NetPolicy(allow=("ok.test:443",), escalate=("new.test:443",)),
    shell=ShellPolicy(allow=("git",)),
    env=EnvPolicy(),
)


@pytest.mark.parametrize(
    ("subject", "verdict", "code"),
    [
        (Subject("read", "/srv/a"), "allow", "tool"),
        (Subject("read", "/etc/shadow"), "deny", "fs.read"),
        (Subject("write", "/srv/out/a"), "allow", "tool"),
        (Subject("write", "/srv/a"), "deny", "fs.write"),
        (Subject("host", "ok.test:443"), "allow", "tool"),
        (Subject("host", "ok.test"), "allow", "tool"),
        (Subject("host", "new.test:443"), "escalate", "net.host"),
        (Subject("host", "evil.test:443"), "deny", "net.host"),
        (Subject("argv", ("git", "log")), "allow", "tool"),
        (Subject("argv", "git log"), "allow", "tool"),
        (Subject("argv", ("curl",)), "deny", "shell.program"),
        (Subject("argv", "git log | sh"), "deny", "shell.raw"),
        (Subject("argv", "git 'log"), "deny", "shell.raw"),
        (Subject("secret", "hunter2"), "allow", "tool"),
    ],
)
def test_typed_subjects_fall_under_their_block(subject: Subject, verdict: str, code: str) -> None:
    """The strictest of the tool's verdict and that of each subject."""
    decision = compile(POLICY).decide(Request.tool("any.tool", subjects=[subject]))
    assert (decision.verdict, decision.code) == (verdict, code)


def test_a_denied_tool_stays_denied_whatever_it_touches() -> None:
    """Both have to agree."""
    policy = parse({"tools": {"a": False}, "fs": {"read": ["/srv"]}})
    request = Request.tool("a", subjects=[Subject("read", "/srv/x")])
    assert compile(policy).decide(request).code == "tool"
    assert compile(policy).decide(request).verdict == "deny"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ('{"a":"\\u0000"}', "request.malformed"),
        ('{"a":"\\\\u0000"}', "tool"),
        ('{"a":' + "[" * 300 + "]" * 300 + "}", "request.too_complex"),
        ('{"a":"' + "[" * 300 + '"}', "tool"),
        ('{"a":[' + ",".join(["[]"] * 300) + "]}", "tool"),
        ('{"a":"' + "x" * (1 << 20) + '"}', "request.too_complex"),
    ],
    ids=["nul", "escaped backslash", "deep", "brackets in text", "wide", "large"],
)
def test_malformed_and_complex_arguments(args: str, code: str) -> None:
    """NUL inside JSON is found, look-alikes are not it; depth and size are capped."""
    decision = compile(Policy()).decide(ToolRequest("a", args))
    assert decision.code == code
    assert decision.verdict == ("allow" if code == "tool" else "deny")


def test_absent_empty_and_closed_differ() -> None:
    """Absent: allowed. Empty: nothing. ``default: deny``: nothing."""
    assert compile(Policy()).decide(Request.tool("a")).verdict == "allow"
    assert ask("a", {}).verdict == "deny"
    assert compile(Policy(default="deny")).decide(Request.tool("a")).layer == "default"


def test_a_fault_inside_is_a_denial() -> None:
    """Whatever goes wrong while deciding, the answer is deny."""
    for nonsense in (None, "git", ToolRequest("a", None), object()):  # type: ignore[arg-type]
        decision = compile(Policy()).decide(nonsense)  # type: ignore[arg-type]
        assert (decision.verdict, decision.code) == ("deny", "internal")


def test_subject_rules_without_lists_allow() -> None:
    """A table that only names no pattern has no opinion."""
    assert SubjectRules() == SubjectRules(None, (), ())
    assert ask("a", {"a": {"deny": []}}).verdict == "allow"


def test_a_stack_takes_the_strictest_layer() -> None:
    """And names it; an empty stack denies."""
    base = compile(parse({"tools": {"*": "escalate"}}), layer="profile")
    request = compile(parse({"tools": {"a": True, "b": False}}), layer="request")
    stack = Stack((base, request))
    assert (stack.decide(Request.tool("a")).verdict, stack.decide(Request.tool("a")).layer) == (
        "escalate", "profile",
    )  # fmt: skip
    assert stack.decide(Request.tool("b")).layer == "request"
    assert Stack(()).decide(Request.tool("a")).verdict == "deny"


@pytest.mark.parametrize("name", ["", ".", "fs.", ".fs", "fs..read", "*", "fs.*", "f*"])
def test_a_name_that_no_tool_has_is_malformed(name: str) -> None:
    """Whatever is open: rules are written for names that can be registered."""
    for tools in ({"*": True}, {"fs": {"read": True}, "*": "escalate"}):
        assert ask(name, tools).code == "request.malformed"
    assert ask("fs.read", {"*": True}).verdict == "allow"


def test_a_subject_of_another_shape_is_malformed() -> None:
    """Words where a text belongs are not passed over."""
    words = Subject("read", ("/etc/passwd",))
    assert ask("t", {"*": True}, words).code == "request.malformed"
    assert ask("t", {"*": True}, Subject("read", "/etc/passwd")).verdict == "allow"
    assert ask("t", {"*": True}, Subject("argv", ("ls",))).verdict == "allow"
