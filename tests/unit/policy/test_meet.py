"""Narrowing keeps what both policies grant, by containment and not by spelling."""

from __future__ import annotations

from typing import Any

import pytest

from axonkernel.policy.decide import compile
from axonkernel.policy.meet import clamped, meet
from axonkernel.policy.model import Limits, NetPolicy, Policy
from axonkernel.policy.parse import parse
from axonkernel.policy.request import Request, strictest


def both(a: dict[str, Any], b: dict[str, Any]) -> Policy:
    return meet(parse(a), parse(b))


def test_an_absent_block_has_no_opinion() -> None:
    """The other policy's block holds; two absent ones stay absent."""
    met = both({"fs": {"read": ["/srv"]}}, {"env": {"allow": ["A"]}})
    assert met.fs is not None
    assert met.fs.read == ("/srv",)
    assert met.env is not None
    assert met.net is None


def test_default_deny_closes_the_absent_blocks_of_both() -> None:
    """A policy that closes what it does not name closes it for the other, too."""
    met = both({"default": "deny", "fs": {"read": ["/srv"]}}, {"net": {"allow": True}})
    assert met.default == "deny"
    assert met.net is not None
    assert met.net.allow == ()


def fs(a: dict[str, Any], b: dict[str, Any]) -> tuple[set[str], set[str], set[str]]:
    met = both({"fs": a}, {"fs": b}).fs
    assert met is not None
    return set(met.read), set(met.write), set(met.deny)


def test_paths_meet_by_containment() -> None:
    """The deeper of two nested grants, at the lower level of the two."""
    assert fs({"read": ["/srv"]}, {"read": ["/srv/a", "/etc"]}) == ({"/srv/a"}, set(), set())
    assert fs({"write": ["/srv"]}, {"read": ["/srv/a"]}) == ({"/srv/a"}, set(), set())
    assert fs({"write": ["/srv"]}, {"write": ["/srv/a"]}) == (set(), {"/srv/a"}, set())
    assert fs({"read": ["/a"]}, {"read": ["/b"]}) == (set(), set(), set())


def test_carve_outs_of_either_stay() -> None:
    """Denies unite, and a hole in one policy is a hole in both."""
    assert fs({"read": ["/srv"], "deny": ["/srv/x"]}, {"read": ["/srv"], "deny": ["/**/k"]}) == (
        {"/srv"}, set(), {"/srv/x", "/**/k"},
    )  # fmt: skip
    read, write, deny = fs(
        {"read": ["/srv"], "deny": ["/srv/x"], "write": ["/srv/x/y"]}, {"write": ["/srv"]}
    )
    assert (read, write, deny) == ({"/srv"}, {"/srv/x/y"}, {"/srv/x"})


def test_protection_of_either_stays() -> None:
    """Also where the other policy lifts it, and the default list is one, too."""
    met = both(
        {"fs": {"write": ["/w"], "protect": ["/w/p"]}},
        {"fs": {"write": ["/w", "/w/p/q"], "protect": False}},
    ).fs
    assert met is not None
    assert met.protect == ("/w/p",)
    assert "/w/p/q" in met.read
    assert "/w/p/q" not in met.write
    lifted = both({"fs": {"write": ["/w", "/w/.git/hooks"]}}, {"fs": {"write": ["/w"]}}).fs
    assert lifted is not None
    assert "/w/.git/hooks" not in lifted.write
    assert lifted.protect is None


@pytest.mark.parametrize(
    ("a", "b", "met"),
    [
        (["a.test"], ["a.test:443"], {"a.test:443"}),
        (["a.test:*"], ["a.test:80"], {"a.test:80"}),
        (["a.test:80-90"], ["a.test:85-99"], {"a.test:85-90"}),
        (["a.test:53"], ["a.test:53/udp"], set()),
        (["*.x.test"], ["a.x.test"], {"a.x.test:443"}),
        (["*.x.test"], ["x.test"], set()),
        (["*.x.test"], ["*.y.x.test"], {"*.y.x.test:443"}),
        (["*"], ["a.test", "10.0.0.1"], {"a.test:443"}),
        (["public"], ["a.test", "8.8.8.8", "10.0.0.1"], {"a.test:443", "8.8.8.8:443"}),
        (["private"], ["a.test", "8.8.8.8", "10.0.0.1"], {"10.0.0.1:443"}),
        (["10.0.0.0/8"], ["10.1.0.0/16"], {"10.1.0.0/16:443"}),
        (["10.0.0.0/8"], ["10.1.2.3"], {"10.1.2.3:443"}),
        (["0.0.0.0/0"], ["169.254.169.254"], set()),
        (["169.254.0.0/16"], ["169.254.169.254"], {"169.254.169.254:443"}),
        (["0.0.0.0/0"], ["169.254.0.0/16"], set()),
        (["private"], ["192.168.0.0/15"], {"192.168.0.0/16:443"}),
        (["public"], ["192.168.0.0/15"], {"192.169.0.0/16:443"}),
        (["*"], ["public"], {"*:443"}),
        ([], ["a.test"], set()),
    ],
)
def test_destinations_meet_exactly(a: list[str], b: list[str], met: set[str]) -> None:
    """Every pair of entries has its exact common part, in either order."""
    for one, two in ((a, b), (b, a)):
        net = both({"net": {"allow": one}}, {"net": {"allow": two}}).net
        assert net is not None
        assert net.allow is not True
        assert set(net.allow) == met


def test_anything_meets_a_list_in_the_list() -> None:
    """``allow: true`` is the other's list; dns and the like take the smaller."""
    net = both(
        {"net": {"allow": True, "dns": "open", "unix": "none"}},
        {"net": {"allow": ["a.test"], "tls_names": "check", "listen": [80]}},
    ).net
    assert net == NetPolicy(("a.test:443",), tls_names="check", unix="none")


def test_what_either_asks_about_is_asked() -> None:
    """An escalation of one meets what the other offers or asks about."""
    net = both(
        {"net": {"allow": ["*.x.test"], "escalate": ["*.y.test"]}},
        {"net": {"allow": ["a.y.test"], "escalate": ["a.x.test", "b.y.test"]}},
    ).net
    assert net is not None
    assert net.allow == ()
    assert set(net.escalate) == {"a.y.test:443", "a.x.test:443", "b.y.test:443"}


def test_programs_meet_by_containment() -> None:
    """Names in globs, paths under names of the search path."""
    shell = both(
        {"shell": {"allow": ["git", "python3*", "/opt/x", "ls"], "raw": True, "spawn": {"max": 3}}},
        {"shell": {"allow": ["git", "python3.11", "/usr/bin/ls", "curl"], "raw": True}},
    ).shell
    assert shell is not None
    assert shell.allow is not True
    assert set(shell.allow) == {"git", "python3.11", "/usr/bin/ls"}
    assert (shell.raw, shell.spawn) == (True, 0)


def test_argument_rules_of_both_hold() -> None:
    """Denies and escalations unite; of the allows, those the other contains."""
    shell = both(
        {"shell": {"allow": ["git"], "args": {"git": {"allow": ["log *"], "deny": ["push"]}}}},
        {"shell": {"allow": ["git"], "args": {"git": {"allow": ["log -1", "diff *"]}}}},
    ).shell
    assert shell is not None
    rules = dict(shell.args)["git"]
    assert (rules.allow, rules.deny) == (("log -1",), ("push",))


def test_variables_meet_and_the_first_value_holds() -> None:
    """A wildcard does not bring a control name, a set name needs the other's consent."""
    env = both(
        {"env": {"allow": ["A*", "LD_*"], "set": {"MODE": "one", "X": "1"}}},
        {"env": {"allow": ["AB", "MODE"], "unsafe_allow": ["LD_PRELOAD"], "set": {"AC": "2"}}},
    ).env
    assert env is not None
    assert env.allow == ("AB",)
    assert dict(env.set) == {"MODE": "one", "AC": "2"}
    assert env.unsafe_allow == ()


def test_tools_take_the_stricter_verdict_by_name() -> None:
    """Also where one map has a level and the other a verdict for all of it."""
    tools = both(
        {"tools": {"fs": {"read": True, "remove": False}, "*": "escalate"}},
        {"tools": {"fs": True, "mail": {"send": True}}},
    ).tools
    assert (
        tools
        == parse(
            {
                "tools": {
                    "fs": {"read": True, "remove": False, "*": "escalate"},
                    "mail": {"send": "escalate", "*": False},
                    "*": False,
                }
            }
        ).tools
    )


def test_limits_take_the_minimum_and_isolation_the_stricter() -> None:
    """A missing cap is no cap."""
    met = both(
        {"limits": {"memory": "1G", "wall": "10s"}, "isolation": "best-effort"},
        {"limits": {"memory": "2G", "pids": 5}, "escalation": {"timeout": "5s"}},
    )
    assert met.limits == Limits(memory_bytes=2**30, wall_s=10.0, pids=5)
    assert met.isolation == "auto"
    assert met.escalation.timeout_s == 5.0


def test_what_was_asked_beyond_the_base_is_told() -> None:
    """One line each, and none for what the base grants."""
    base = parse(
        {
            "fs": {"read": ["/srv"], "write": ["/srv/out"]},
            "net": {"allow": ["*.x.test"]},
            "shell": {"allow": ["git"]},
            "env": {"allow": ["A"]},
            "tools": {"a": "escalate", "*": False},
            "limits": {"pids": 5},
        }
    )
    asked = parse(
        {
            "fs": {"read": ["/srv/a", "/etc"], "write": ["/srv/out/b", "/srv/c"]},
            "net": {"allow": ["a.x.test", "b.test"]},
            "shell": {"allow": ["git", "curl"], "raw": True},
            "env": {"allow": ["A", "B"]},
            "tools": {"a": True},
            "limits": {"pids": 9},
        }
    )
    assert [line.partition(":  ")[0].rpartition(": ")[0] for line in clamped(base, asked)] == [
        "fs.read /etc", "fs.write /srv/c", "net.allow b.test:443", "shell.allow curl",
        "shell.raw true", "env.allow B", "tools.a allow", "limits.pids 9",
    ]  # fmt: skip
    assert clamped(base, base) == ()
    assert clamped(parse({}), asked) == ()


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ({"allow": True, "escalate": ["[fd00:ec2::254]:80"]}, {"allow": ["[::/0]:80"]}, "deny"),
        ({"allow": True, "escalate": ["[fd00:ec2::254]:80"]}, {"allow": ["[fd00:ec2::254]:80"]},
         "escalate"),
        ({"allow": True, "escalate": ["[::/0]:80"]}, {"allow": ["[fd00:ec2::254]:80"]}, "escalate"),
        ({"allow": ["[fd00:ec2::/64]:80"], "escalate": ["[::/0]:80"]},
         {"allow": ["[fd00:ec2::254]:80", "[::/0]:*"]}, "escalate"),
    ],
)  # fmt: skip
def test_a_question_is_no_offer(a: dict[str, Any], b: dict[str, Any], verdict: str) -> None:
    """A metadata address that one side asks about and the other does not grant stays closed."""
    request = Request.connect("[fd00:ec2::254]:80")
    for one, two in ((a, b), (b, a)):
        met = both({"net": one}, {"net": two})
        assert compile(met).decide(request).verdict == verdict
        both_said = [compile(parse({"net": net})).decide(request) for net in (one, two)]
        assert strictest(both_said).verdict == verdict


def test_settings_that_lift_something_are_clamped_too() -> None:
    """Hazards, control sockets, ports, counters and a weaker isolation."""
    base = parse({
        "isolation": "strict", "fs": {"read": ["/srv"]}, "net": {"allow": [], "listen": [1]},
        "shell": {"allow": ["git"]}, "budget": {"turns": 5},
    })  # fmt: skip
    asked = parse({
        "isolation": "none", "fs": {"read": [], "unsafe": ["/run/docker.sock"]},
        "net": {"allow": [], "listen": [1, 8080]}, "budget": {"turns": 9},
        "shell": {"allow": ["git"], "unsafe": ["git -c"]},
    })  # fmt: skip
    assert [line.partition(": ")[0] for line in clamped(base, asked)] == [
        "fs.unsafe /run/docker.sock", "net.listen 8080", "shell.unsafe git -c", "budget.turns 9",
        "isolation none",
    ]  # fmt: skip
    assert clamped(base, base) == () == clamped(asked, asked)
