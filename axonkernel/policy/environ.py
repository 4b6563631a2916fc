"""The environment an agent or a program gets, from nothing (pure)."""

from __future__ import annotations

from collections.abc import Mapping

from axonkernel.policy.controls import is_control
from axonkernel.policy.model import EnvPolicy

__all__ = ["FLOOR", "QUIET", "environment", "passes"]

#: Passed through whatever the policy says: who and where one is, never what to load.
FLOOR = ("LANG", "LANGUAGE", "LC_*", "TERM", "COLORTERM", "NO_COLOR", "TZ", "COLUMNS", "LINES")

#: So that a program never waits for a person who is not there.
QUIET: Mapping[str, str] = {"GIT_TERMINAL_PROMPT": "0", "PAGER": "cat", "GIT_PAGER": "cat"}


def environment(
    policy: EnvPolicy | None, source: Mapping[str, str], fixed: Mapping[str, str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The environment, and the names of ``source`` that did not get in.

    Arguments:
        policy: None lets all of ``source`` in (``env`` not declared).
        source: the supervisor's own environment.
        fixed: what the box itself decides (PATH, HOME, USER, TMPDIR); beats ``source``, and
            is beaten by ``env.set`` and by a name in ``env.unsafe_allow``.
    """
    if policy is None:
        return {**source, **fixed}, ()
    chosen = {name: value for name, value in source.items() if passes(policy, name)}
    floor = {name: value for name, value in source.items() if _among(FLOOR, name)}
    named = {name: source[name] for name in policy.unsafe_allow if name in source}
    result = {**floor, **chosen, **fixed, **dict(policy.set), **named}
    return result, tuple(sorted(source.keys() - result.keys()))


def passes(policy: EnvPolicy, name: str) -> bool:
    """Whether ``env.allow`` or ``env.unsafe_allow`` lets a name through.

    A control of a loader or interpreter passes only when ``unsafe_allow`` names it exactly.
    """
    if name in policy.unsafe_allow:
        return True
    return not is_control(name) and _among(policy.allow, name)


def _among(patterns: tuple[str, ...], name: str) -> bool:
    return any(
        name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern
        for pattern in patterns
    )
