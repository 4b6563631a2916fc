"""Environment variables: seen, and set by a caller."""

from __future__ import annotations

from typing import Any

import pytest

from axonkernel.policy.decide import compile
from axonkernel.policy.model import EnvPolicy, Policy, ShellPolicy
from axonkernel.policy.request import Decision, Request

CONTROLS = [
    "LD_PRELOAD", "LD_AUDIT", "PYTHONSTARTUP", "PYTHONPATH", "NODE_OPTIONS", "BASH_ENV", "ENV",
    "PERL5OPT", "RUBYOPT", "JAVA_TOOL_OPTIONS", "PS4", "SHELLOPTS", "LESSOPEN", "PAGER",
    "EDITOR", "BASH_FUNC_x%%", "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_SSH_COMMAND",
    "GIT_EXTERNAL_DIFF", "GIT_EXEC_PATH", "GIT_CONFIG_GLOBAL", "BUN_OPTIONS",
]  # fmt: skip


def sees(name: str, **lists: Any) -> Decision:
    return compile(Policy(env=EnvPolicy(**lists))).decide(Request.env(name))


def sets(name: str, **lists: Any) -> Decision:
    policy = Policy(shell=ShellPolicy(allow=("git",)), env=EnvPolicy(**lists))
    return compile(policy).decide(Request.process(["git", "log"], env=[name]))


def test_only_named_variables_are_seen() -> None:
    """Exact names, prefixes and fixed values, by exact case."""
    lists: dict[str, Any] = {"allow": ("TOKEN", "GITHUB_*"), "set": (("MODE", "ci"),)}
    for name in ("TOKEN", "GITHUB_TOKEN", "MODE"):
        assert sees(name, **lists).verdict == "allow"
    for name in ("token", "TOKEN2", "MY_GITHUB_X", "AWS_SECRET_ACCESS_KEY"):
        assert sees(name, **lists).code == "env.name"
        assert sees(name, **lists).verdict == "deny"


@pytest.mark.parametrize("name", CONTROLS)
def test_a_wildcard_skips_control_names(name: str) -> None:
    """Only ``unsafe_allow`` lets what loaders and interpreters obey through."""
    for pattern in ("*", f"{name[:2]}*"):
        assert sees(name, allow=(pattern,)).verdict == "deny"
        assert sets(name, allow=(pattern,)).code == "shell.hazard"
    assert sees(name, unsafe_allow=(name,)).verdict == "allow"
    assert sets(name, unsafe_allow=(name,)).verdict == "allow"


def test_the_floor_is_always_seen() -> None:
    """A closed block still has what every box has."""
    for name in ("PATH", "HOME", "LANG", "LC_ALL", "TERM", "TZ"):
        assert sees(name).verdict == "allow"
    assert sees("TOKEN").verdict == "deny"


def test_setting_a_variable_is_judged_like_seeing_it() -> None:
    """The per-call environment obeys the same list, and PATH is never set by a caller."""
    assert sets("TOKEN", allow=("TOKEN",)).verdict == "allow"
    assert sets("TOKEN").code == "env.name"
    assert sets("PATH", allow=("*",)).code == "shell.hazard"


def test_setting_a_control_is_a_hazard_without_an_env_block() -> None:
    """Whether or not ``env`` is declared."""
    ruleset = compile(Policy(shell=ShellPolicy(allow=True)))
    denied = ruleset.decide(Request.process(["git"], env=["LD_PRELOAD"]))
    assert (denied.verdict, denied.code) == ("deny", "shell.hazard")
    assert ruleset.decide(Request.process(["git"], env=["MODE"])).verdict == "allow"


def test_an_env_block_holds_without_a_shell_block() -> None:
    """Which programs run is open, what is set for them is not."""
    ruleset = compile(Policy(env=EnvPolicy(allow=("MODE",))))
    assert ruleset.decide(Request.process(["git"], env=["MODE"])).verdict == "allow"
    assert ruleset.decide(Request.process(["git"], env=["TOKEN"])).code == "env.name"
    assert ruleset.decide(Request.process(["git"], env=["LD_PRELOAD"])).code == "shell.hazard"


@pytest.mark.parametrize("name", ["", "A=B", "A\0B"])
def test_malformed_names_are_denied_whatever_the_policy(name: str) -> None:
    """No environment can hold them."""
    assert compile(Policy()).decide(Request.env(name)).code == "request.malformed"
    assert sets(name, allow=("*",)).code == "request.malformed"


def test_absent_and_closed_differ() -> None:
    """Absent: no opinion. ``default: deny``: nothing beyond the floor."""
    assert compile(Policy()).decide(Request.env("TOKEN")).verdict == "allow"
    assert compile(Policy(default="deny")).decide(Request.env("TOKEN")).verdict == "deny"
