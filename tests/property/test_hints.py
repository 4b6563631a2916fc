"""The change that ``explain`` prints really allows what was denied."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from axonkernel.errors import PolicyError
from axonkernel.policy.decide import Stack, compile
from axonkernel.policy.explain import explain
from axonkernel.policy.model import Policy
from axonkernel.policy.parse import parse, unparse
from axonkernel.policy.request import AnyRequest, Request
from tests.property.test_meet_law import policies, requests_of_any_kind

_REMOVAL = re.compile(r"remove (?P<value>.+) from (?P<where>.+?)(?:  # .*)?\Z", re.DOTALL)


def _pasted(policy: dict[str, Any], text: str) -> dict[str, Any]:
    """A policy with the printed lines in it: entries beside those that are there."""
    data: dict[str, Any] = json.loads(json.dumps(policy))
    for line in text.split("\n") if text else ():
        if removal := _REMOVAL.match(line):
            value = tomllib.loads(f"value = {removal['value']}")["value"]
            _at(data, tomllib.loads(f"{removal['where']} = 0")).remove(value)
        else:
            _merge(data, tomllib.loads(line))
    return data


def _at(data: Any, keys: dict[str, Any]) -> Any:
    ((key, below),) = keys.items()
    return _at(data[key], below) if isinstance(below, dict) else data[key]


def _merge(data: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        there = data.get(key)
        if isinstance(there, dict) and isinstance(value, dict):
            _merge(there, value)
        elif isinstance(there, list) and isinstance(value, list):
            data[key] = there + value
        else:
            data[key] = value


def _written(policy: Policy) -> Policy:
    """The policy as somebody could have written it, or none."""
    try:
        return parse(unparse(policy))
    except PolicyError:
        assume(False)
        raise


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(policies, requests_of_any_kind)
def test_the_printed_change_allows_the_request(policy: Policy, request: AnyRequest) -> None:
    """For any policy and request: pasted, it is a policy without faults that says yes."""
    ruleset = compile(_written(policy))
    found = explain(ruleset, request)
    assert found.decision == ruleset.decide(request)
    if found.decision.verdict == "allow":
        assert found.hint == ""
        return
    event(f"{found.decision.code} {'changed' if found.hint else 'no change'}")
    if found.hint:
        after = compile(parse(_pasted(unparse(ruleset.policy), found.hint)))
        assert after.decide(request).verdict == "allow"


@settings(suppress_health_check=[HealthCheck.filter_too_much])
@given(policies, policies, requests_of_any_kind)
def test_every_layer_gets_its_own_change(a: Policy, b: Policy, request: AnyRequest) -> None:
    """Of two layers each gets the lines that name it, and both together say yes."""
    layers = {"profile": _written(a), "policy": _written(b)}
    stack = Stack(tuple(compile(policy, layer=name) for name, policy in layers.items()))
    found = explain(stack, request)
    assert [name for name, _ in found.layers] == ["profile", "policy"]
    if not found.hint:
        return
    for name, policy in layers.items():
        text = "\n".join(str(change) for change in found.changes if change.layer == name)
        assert ("# in the layer profile" in text) == (name == "profile" and text != "")
        after = compile(parse(_pasted(unparse(policy), text)))
        assert after.decide(request).verdict == "allow"


_ODD = st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=6)
_odd_requests = st.one_of(
    _ODD.map(lambda text: Request.read(f"/srv/{text}")),
    _ODD.map(lambda text: Request.write(f"/srv/{text}")),
    _ODD.map(lambda text: Request.process(["git", text])),
    _ODD.map(lambda text: Request.process([f"./{text}"], cwd="/srv")),
    _ODD.map(Request.env),
    _ODD.map(lambda text: Request.tool(f"a.{text}", {"x": text})),
)


@given(_odd_requests)
def test_odd_characters_come_out_spelled_right(request: AnyRequest) -> None:
    """Quotes, stars, newlines: the line is TOML, and grants just that or is not there."""
    policy = {"default": "deny", "shell": {"allow": ["git"], "args": {"git": {"allow": []}}}}
    found = explain(compile(parse(policy)), request)
    if found.hint and found.decision.verdict != "allow":
        after = compile(parse(_pasted(policy, found.hint)))
        assert after.decide(request).verdict == "allow"


_CLOSED: dict[str, Any] = {
    "default": "deny",
    "fs": {"read": ["/srv"], "deny": ["/srv/**/*.key"], "write": ["/srv/out"]},
    "net": {"allow": ["ok.test"], "deny": ["bad.test:*"], "escalate": ["ask.test"]},
    "shell": {"allow": ["git", "ls"], "deny": ["rm"], "args": {
        "git": {"deny": ["push --force*"], "escalate": ["push*"]}, "ls": {"allow": ["-l"]},
    }},
    "tools": {"a": False, "b.c": "escalate", "d": {"allow": ["x*"], "deny": ["xy"]},
              "e.f": {"escalate": ["*"]}},
}  # fmt: skip


@pytest.mark.parametrize(
    "request_",
    [
        Request.read("/etc/hosts"), Request.read("/srv/a.key"), Request.write("/srv/a"),
        Request.write("/srv/out/.git/hooks/x"), Request.write("/srv/out/.bashrc"),
        Request.read("/proc/self/environ"), Request.read("/run/docker.sock"),
        Request.read("/tmp/x"), Request.read("/etc/a*b?"), Request.connect("new.test:80"),
        Request.connect("bad.test:80"), Request.connect("ask.test"), Request.connect("[::1]:80"),
        Request.connect("169.254.169.254:80"), Request.connect("10.0.0.1:53/udp"),
        Request.process(["curl"]), Request.process(["rm", "x"]), Request.process(["ls", "-a", "*"]),
        Request.process(["git", "push", "--force"]), Request.process(["git", "push"]),
        Request.process(["./x", "y"], cwd="/srv"), Request.process(["/opt/x"]),
        Request.process(["git"], spawn=True), Request.process(["env", "curl"]),
        Request.process(["env", "LD_PRELOAD=x", "git"]), Request.process(["git"], env=["A"]),
        Request.process(["git", "-c", "a=b", "log"]), Request.process(["ls", "-l"], env=["PATH"]),
        Request.shell("git log | head -n 1 > /srv/x"), Request.shell("ls -l; rm x"),
        Request.env("TOKEN"), Request.env("LD_PRELOAD"), Request.tool("a"), Request.tool("a.b"),
        Request.tool("b.c"), Request.tool("b"), Request.tool("z"), Request.tool("d", {"t": "y"}),
        Request.tool("d", {"t": "xy"}), Request.tool("d"), Request.tool("e.f", {"t": "y"}),
        Request.tool("a.b.c.d"),
    ],
    ids=lambda request: request.action,
)  # fmt: skip
def test_there_is_a_change_for_each_kind_of_denial(request_: AnyRequest) -> None:
    """None of them is left without one, and it works."""
    policy = parse(_CLOSED)
    found = explain(compile(policy), request_)
    assert found.decision.verdict != "allow"
    assert found.hint
    after = compile(parse(_pasted(unparse(policy), found.hint)))
    assert after.decide(request_).verdict == "allow"


@pytest.mark.parametrize(
    "request_",
    [Request.connect("127.1"), Request.read("relative"), Request.process([]),
     Request.process(["a"] * 20_000), Request.env("A=B")],
)  # fmt: skip
def test_what_no_policy_allows_has_no_change(request_: AnyRequest) -> None:
    """Malformed and oversized requests."""
    found = explain(compile(parse(_CLOSED)), request_)
    assert (found.decision.verdict, found.hint) == ("deny", "")


def test_what_is_not_the_authors_cannot_be_taken_out() -> None:
    """A denied path that the kernel added has no change; one beside it has."""
    policy = parse({"fs": {"read": ["/"], "deny": ["/srv/own", "/srv/key"]}})
    ruleset = compile(policy, fixed=frozenset({"/srv/own"}))
    assert explain(ruleset, Request.read("/srv/own/a")).hint == ""
    assert explain(ruleset, Request.read("/srv/key")).hint == 'remove "/srv/key" from fs.deny'


def test_the_winner_is_marked_in_every_layer() -> None:
    """Each rule has its layer; only the one that decided wins."""
    profile = compile(parse({"shell": {"allow": ["ls"]}}), layer="profile")
    own = compile(parse({"shell": {"allow": ["ls", "git"], "deny": ["ls"]}}))
    found = explain(Stack((profile, own)), Request.process(["ls"]))
    shown = {(m.layer, m.rule, m.verdict, found.wins(m)) for m in found.matches}
    assert shown == {
        ("profile", "$.shell.allow[0]", "allow", False),
        ("policy", "$.shell.allow[0]", "allow", False),
        ("policy", "$.shell.deny[0]", "deny", True),
    }
    assert [(name, said.verdict) for name, said in found.layers] == [
        ("profile", "allow"), ("policy", "deny"),
    ]  # fmt: skip
