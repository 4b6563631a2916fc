"""Remarks: what a policy may say and its author should see once more."""

from __future__ import annotations

from typing import Any

import pytest

from axonkernel.policy.lint import lints
from axonkernel.policy.lookalikes import deception
from axonkernel.policy.model import Policy, ShellPolicy
from axonkernel.policy.parse import parse

CLOSED = {"fs": False, "net": False, "shell": False, "env": False, "tools": False}


def remarks(data: dict[str, Any]) -> set[tuple[str, str]]:
    """(code, place) of every remark; blocks that are not given are closed."""
    return {(lint.code, lint.path) for lint in lints(parse({**CLOSED, **data}, base="/srv/app"))}


def test_a_narrow_policy_has_no_remarks() -> None:
    """The positive twin of everything below."""
    data = {
        "fs": {"read": ["src"], "write": ["out"], "deny": ["**/.env", "src/**/*.key", "out/x"]},
        "net": {"allow": ["api.test:443", "*.b.test", "10.0.0.0/8:5432"], "deny": ["10.1.0.0/16"]},
        "shell": {
            "allow": ["git", "pytest*", "./run", "/usr/bin/jq"],
            "deny": ["pytest-2", "pytest3"],
            "args": {"git": {"deny": ["push*"]}, "jq": {}},
        },
        "env": {
            "allow": ["TOKEN", "GITHUB_*", "GIT*"],
            "set": {"TZ": "UTC"},
            "unsafe_allow": ["PATH"],
        },
        "tools": {"*": "escalate", "fs": {"read": True, "*": {"allow": ["a"], "deny": ["b"]}}},
    }
    assert remarks(data) == set()


def test_no_policy_has_one_remark() -> None:
    """No policy is unrestricted access, and that is said."""
    (lint,) = lints(Policy(declared=False))
    assert lint.code == "unrestricted"


def test_open_blocks_are_named() -> None:
    """An absent block is open, unless the default closes it."""
    found = {(lint.code, lint.path) for lint in lints(parse({"fs": False, "shell": False}))}
    assert found == {("open", "$.net"), ("open", "$.env"), ("open", "$.tools")}
    assert lints(parse({"default": "deny"})) == ()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"fs": {"read": ["/"], "write": ["/etc", "x"]}}, {"$.fs.read[0]", "$.fs.write[0]"}),
        (
            {"net": {"allow": ["*", "*.com", "public", "0.0.0.0/1", "a.com"]}},
            {f"$.net.allow[{index}]" for index in range(4)},
        ),
        ({"net": {"allow": True}}, {"$.net.allow"}),
        ({"shell": {"allow": ["*", "git"]}}, {"$.shell.allow[0]"}),
        ({"shell": {"allow": True}}, {"$.shell.allow"}),
        ({"env": {"allow": ["*", "A*"]}}, {"$.env.allow[0]"}),
        ({"tools": {"*": True, "a": True}}, {'$.tools["*"]'}),
    ],
)
def test_over_broad_grants(data: dict[str, Any], expected: set[str]) -> None:
    """Grants of much of the machine, the internet or the environment; narrower ones pass."""
    assert remarks(data) == {("over-broad", path) for path in expected}


def test_interpreters_run_any_code() -> None:
    """By name, with a version, by glob and by path; other programs are not named."""
    allow = ["python3", "python3.12", "b*sh", "/opt/node", "env", "git", "pytest"]
    assert remarks({"shell": {"allow": allow}}) == {
        ("interpreter", f"$.shell.allow[{index}]") for index in range(5)
    }


@pytest.mark.parametrize(
    ("data", "path"),
    [
        ({"fs": {"read": ["src"], "deny": ["docs/x"]}}, "$.fs.deny[0]"),
        ({"fs": {"read": ["src"], "deny": ["docs/**/*.key"]}}, "$.fs.deny[0]"),
        ({"fs": {"write": ["src"], "protect": ["docs"]}}, "$.fs.protect[0]"),
        ({"net": {"allow": ["a.test"], "deny": ["A.test:443"]}}, "$.net.allow[0]"),
        ({"shell": {"allow": ["git"], "deny": ["jq", "git*"]}}, "$.shell.deny[0]"),
        ({"shell": {"allow": ["git"], "deny": ["git*"]}}, "$.shell.allow[0]"),
        ({"shell": {"allow": ["git"], "args": {"tar": {}}}}, "$.shell.args.tar"),
        ({"env": {"allow": ["A"], "set": {"A": "x"}}}, "$.env.allow[0]"),
        ({"tools": {"a": {"b": {"allow": ["x"], "deny": ["x"]}}}}, "$.tools.a.b.allow[0]"),
    ],
)
def test_rules_that_can_never_match(data: dict[str, Any], path: str) -> None:
    """A rule outside every grant, or beaten by a deny of the same words."""
    assert ("never-matches", path) in remarks(data)


def test_a_socket_variable_gives_no_access_and_names_the_power() -> None:
    """The remark explains what listing the socket as well would hand out."""
    policy = parse({**CLOSED, "env": {"allow": ["SSH_AUTH_SOCK", "DOCKER_HOST", "TOKEN"]}})
    agent, docker = lints(policy)
    assert (agent.code, agent.path) == ("socket-variable", "$.env.allow[0]")
    assert "alone gives no access" in agent.message
    assert "every key the ssh agent holds" in agent.message
    assert "root of the host" in docker.message


def test_a_glob_over_controls_is_named() -> None:
    """``GIT_*`` lets nothing in, since a glob never covers loader controls."""
    assert remarks({"env": {"allow": ["GIT_*"], "unsafe_allow": ["PLAIN"]}}) == {
        ("control-skipped", "$.env.allow[0]"),
        ("needless", "$.env.unsafe_allow[0]"),
    }


def test_what_is_not_expanded_or_needless_in_fs() -> None:
    """Variables, character classes, and an unsafe entry that grants nothing by itself."""
    data = {"read": ["$HOME/x", "a$b"], "deny": ["$HOME/x/*.[ch]"], "unsafe": ["/proc"]}
    assert remarks({"fs": data}) == {
        ("not-expanded", "$.fs.read[0]"),
        ("not-expanded", "$.fs.deny[0]"),
        ("needless", "$.fs.unsafe[0]"),
    }


def test_a_list_that_says_a_thing_twice() -> None:
    """Two spellings of one entry are seen as the same."""
    data = {"fs": {"read": ["src", "./src/"]}, "net": {"allow": ["a.test", "A.test:443"]}}
    assert remarks(data) == {("duplicate", "$.fs.read[1]"), ("duplicate", "$.net.allow[1]")}


@pytest.mark.parametrize(
    "text",
    ["pay\u200bpal", "\u202egnp.exe", "p\u0430ypal", "\uff47it", "a\u00a0b", "xn--pple-43d.com:443",
     "\u3164", "/x/\u212aey"],
)  # fmt: skip
def test_deceptive_characters_are_seen(text: str) -> None:
    """Invisible, turning, mixed-script, compatibility and encoded characters."""
    assert deception(text)


@pytest.mark.parametrize(
    "text", ["plain", "über/straße", "данные", "日本語", "a b", "e\u0301t\u00e9", "x\udcff", "αβγ"]
)
def test_honest_foreign_text_passes(text: str) -> None:
    """Words of one script are not suspicious, composed or not."""
    assert deception(text) is None


def test_deceptive_text_is_found_anywhere() -> None:
    """In values and in names, shown in ASCII."""
    policy = parse({**CLOSED, "fs": {"read": ["/x/p\u0430y"]}, "tools": {"g\u200b": True}})
    found = {lint.path: str(lint) for lint in lints(policy)}
    assert found.keys() == {"$.fs.read[0]", '$.tools["g\\u200b"]'}
    assert all(text.isascii() for text in found.values())


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"net": {"allow": ["a.x.test", "y.test"], "deny": ["*.x.test"]}}, {"$.net.allow[0]"}),
        ({"net": {"allow": ["10.1.2.3:80"], "deny": ["10.0.0.0/8:*"]}}, {"$.net.allow[0]"}),
        ({"net": {"allow": ["10.0.0.0/8:80"], "deny": ["10.1.2.3:80"]}}, set()),
        ({"net": {"allow": ["y.test:80-90"], "deny": ["y.test:80"]}}, set()),
        ({"net": {"allow": ["y.test"], "escalate": ["z.test"], "deny": ["z.test:*"]}},
         {"$.net.escalate[0]"}),
        ({"fs": {"read": ["a.key", "b"], "deny": ["**/*.key"]}}, {"$.fs.read[0]"}),
        ({"fs": {"write": ["x/.env"], "deny": ["/srv/**/.env"]}}, {"$.fs.write[0]"}),
        ({"shell": {"allow": ["git"], "args": {"git": {"allow": ["log", "push"], "deny": ["push"],
                                                       "escalate": ["push"]}}}},
         {"$.shell.args.git.allow[1]", "$.shell.args.git.escalate[0]"}),
        ({"tools": {"t": {"allow": ["a"], "escalate": ["b", "c"], "deny": ["b"]}}},
         {"$.tools.t.escalate[0]"}),
    ],
)  # fmt: skip
def test_rules_under_a_wider_denial_never_match(data: dict[str, Any], expected: set[str]) -> None:
    """A deny that covers all of an entry, not only one that is spelled like it."""
    assert remarks(data) == {("never-matches", place) for place in expected}


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ({"net": {"allow": ["private", "*.co.uk", "*.x.co.uk", "*.io.test"]}},
         {"$.net.allow[0]", "$.net.allow[1]"}),
        ({"tools": {"http.fetch": {"allow": ["https://*", "https://a.test/*"]}}},
         {"$.tools.http.fetch.allow[0]"}),
        ({"tools": {"t": {"allow": ["*"]}, "u": {"allow": ["a*"]}}}, {"$.tools.t.allow[0]"}),
    ],
)  # fmt: skip
def test_grants_that_are_wider_than_they_look(data: dict[str, Any], expected: set[str]) -> None:
    """Local networks, registries, patterns for any subject."""
    assert remarks(data) == {("over-broad", place) for place in expected}


@pytest.mark.parametrize(
    "entry", ["python3.12", "bash", "make", "npm", "docker", "python3*", "vim"]
)
def test_interpreters_are_named_as_such(entry: str) -> None:
    """Their arguments are code, whatever else a rule says; from their profiles."""
    found = [lint for lint in lints(Policy(shell=ShellPolicy(allow=(entry,))))
             if lint.code == "interpreter"]  # fmt: skip
    assert [lint.path for lint in found] == ["$.shell.allow[0]"]
    assert "any code" in found[0].message


def test_a_wrapper_is_told_from_an_interpreter() -> None:
    """It brings no code of its own; git is neither."""
    (env,) = [
        x for x in lints(Policy(shell=ShellPolicy(allow=("env",)))) if x.code == "interpreter"
    ]
    assert "needs an entry of its own" in env.message
    policy = Policy(shell=ShellPolicy(allow=("git", "tar", "grep")))
    assert "interpreter" not in [lint.code for lint in lints(policy)]
