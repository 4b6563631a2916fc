"""The operator sees every rule and a way out; the agent sees neither."""

from __future__ import annotations

from typing import Any

import pytest

from axonkernel.policy.decide import Stack, compile
from axonkernel.policy.explain import agent_text, explain
from axonkernel.policy.parse import parse
from axonkernel.policy.request import AnyRequest, Request

POLICY: dict[str, Any] = {
    "fs": {"read": ["/srv"], "write": ["/srv/out"], "deny": ["/srv/**/*.key"]},
    "net": {"allow": ["ok.test:443"], "deny": ["bad.ok.test:443"]},
    "shell": {
        "allow": ["git", "ls"],
        "args": {
            "git": {"deny": ["push --force*"], "escalate": ["push*"]},
            "ls": {"allow": ["-l"]},
        },
    },
    "env": {"allow": ["TOKEN"]},
    "tools": {"fs": {"read": True}, "*": "escalate"},
}

REQUESTS: list[AnyRequest] = [
    Request.read("/srv/a"), Request.read("/srv/a.key"), Request.write("/srv/a"),
    Request.write("/srv/out/.bashrc"), Request.read("/proc/1/environ"), Request.read("bad"),
    Request.connect("ok.test"), Request.connect("bad.ok.test"), Request.connect("127.1"),
    Request.process(["git", "push", "--force"]), Request.process(["git", "push"]),
    Request.process(["curl"]), Request.process(["ls", "-a"]), Request.process([]),
    Request.shell("git log | sh"), Request.shell("git log"), Request.env("TOKEN"),
    Request.env("LD_PRELOAD"), Request.tool("fs.read"), Request.tool("x.y"),
    Request.process(["env", "LD_PRELOAD=x", "git"]), Request.process(["git"], spawn=True),
]  # fmt: skip


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request.action)
def test_the_explanation_is_the_decision(request_: AnyRequest) -> None:
    """``explain`` decides as ``decide`` does, for one ruleset and for a stack."""
    ruleset = compile(parse(POLICY))
    stack = Stack((ruleset, compile(parse({}))))
    assert explain(ruleset, request_).decision == ruleset.decide(request_)
    assert explain(stack, request_).decision == stack.decide(request_)


def test_what_the_words_of_a_program_ask_is_listed() -> None:
    """Hazards and what lifts them, files, destinations, variables; the winner among them."""
    data = {**POLICY, "shell": {"allow": True, "unsafe": ["sort -o", "tar --to-command"]}}
    ruleset = compile(parse(data))

    def said(*argv: str) -> list[tuple[str, str]]:
        found = explain(ruleset, Request.process(argv, cwd="/srv")).matches
        return [(match.verdict, match.rule) for match in found if match.rule != "$.shell.allow"]

    assert said("sort", "-o", "out/x") == [("allow", "$.fs.write[0]"), ("deny", "$.fs.read[0]")]
    assert said("sort", "x.key") == [("deny", "$.fs.deny[0]"), ("allow", "$.fs.read[0]")]
    assert ("deny", "$.net.deny[0]") in said("curl", "https://bad.ok.test")
    assert ("allow", "$.net.allow[0]") in said("curl", "https://ok.test")
    assert said("git", "-c", "a.b=c", "log") == [("deny", "builtin:hazard")]
    lifted = said("tar", "-tf", "a", "--to-command=p")
    assert lifted[:2] == [("deny", "builtin:hazard"), ("allow", "$.shell.unsafe[1]")]
    assert said("env", "TOKEN=x", "ls") == [("allow", "$.env.allow[0]")]


def test_every_rule_that_spoke_is_listed() -> None:
    """Those that lost too."""
    ruleset = compile(parse(POLICY))
    found = explain(ruleset, Request.process(["git", "push", "--force"]))
    assert [(match.verdict, match.rule, match.text) for match in found.matches] == [
        ("allow", "$.shell.allow[0]", "git"),
        ("deny", "$.shell.args.git.deny[0]", "push --force*"),
        ("escalate", "$.shell.args.git.escalate[0]", "push*"),
    ]
    assert found.decision.rule == "$.shell.args.git.deny[0]"
    path = explain(ruleset, Request.read("/srv/out/a.key"))
    assert [match.rule for match in path.matches] == [
        "$.fs.deny[0]", "$.fs.write[0]", "$.fs.read[0]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "change"),
    [
        (Request.read("/etc/hosts"), {"fs": {"read": ["/etc/hosts"]}}),
        (Request.write("/srv/a"), {"fs": {"write": ["/srv/a"]}}),
        (Request.read("/tmp/a"), {"fs": {"read": ["/tmp/a"]}}),
        (Request.connect("new.test:80"), {"net": {"allow": ["new.test:80"]}}),
        (Request.connect("[fd00::1]:80"), {"net": {"allow": ["[fd00::1]:80"]}}),
        (Request.connect("10.0.0.1:53/udp"), {"net": {"allow": ["10.0.0.1:53/udp"]}}),
        (Request.process(["make", "x"]), {"shell": {"allow": ["make"]}}),
        (Request.env("OTHER"), {"env": {"allow": ["OTHER"]}}),
    ],
    ids=lambda value: str(getattr(value, "action", "")),
)
def test_the_hint_allows_the_request(request_: AnyRequest, change: dict[str, Any]) -> None:
    """The pasted line is in the hint, and a policy with it allows what was denied."""
    closed = compile(parse({"default": "deny"}))
    found = explain(closed, request_)
    assert found.decision.verdict == "deny"
    ((block, fields),) = change.items()
    ((field, values),) = fields.items()
    assert found.hint == f'{block}.{field} = ["{values[0]}"]'
    assert compile(parse({"default": "deny", **change})).decide(request_).verdict == "allow"


def test_the_hint_for_words_is_a_pattern_for_just_them() -> None:
    """Special characters come out quoted."""
    found = explain(compile(parse(POLICY)), Request.process(["ls", "-a", "x y*"]))
    assert found.hint == """shell.args.ls.allow = ["-a 'x y*'"]"""
    change = {"shell": {"allow": ["ls"], "args": {"ls": {"allow": ["-a 'x y*'"]}}}}
    ruleset = compile(parse(change))
    assert ruleset.decide(Request.process(["ls", "-a", "x y*"])).verdict == "allow"
    assert ruleset.decide(Request.process(["ls", "-a", "x yz"])).verdict == "deny"


def test_a_denying_rule_is_to_be_removed() -> None:
    """There is nothing to add where a rule denies; nothing at all where it is allowed."""
    ruleset = compile(parse(POLICY))
    found = explain(ruleset, Request.read("/srv/a.key"))
    assert found.hint == 'remove "/srv/**/*.key" from fs.deny'
    assert explain(ruleset, Request.read("/srv/a")).hint == ""
    assert explain(ruleset, Request.connect("127.1")).hint == ""


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: request.action)
def test_the_agent_never_sees_a_rule(request_: AnyRequest) -> None:
    """No path of a rule, no pattern, nothing that would have been allowed."""
    decision = compile(parse(POLICY)).decide(request_)
    text = agent_text(decision, request_)
    assert request_.action in text
    for secret in ("$.", "*", "deny[", decision.layer + " layer", "ok.test:443:"):
        assert secret not in text
    if decision.verdict == "deny":
        assert decision.code in text
        assert "did not run" in text


def test_the_explanation_is_json_data() -> None:
    """With the keys the command line promises."""
    data = explain(compile(parse(POLICY)), Request.read("/etc/hosts")).as_dict()
    assert {"verdict", "code", "rule", "layer", "hint"} <= data.keys()
    assert data["verdict"] == "deny"
