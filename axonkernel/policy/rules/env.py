"""Environment variables: which may be seen, which a caller may set."""

from __future__ import annotations

from collections.abc import Iterator

from axonkernel.policy.controls import is_control
from axonkernel.policy.environ import FLOOR
from axonkernel.policy.globs import GlobTable
from axonkernel.policy.model import EnvPolicy
from axonkernel.policy.request import Decision, Match
from axonkernel.policy.tables import Rule, rules

__all__ = ["EnvRules", "hazard"]

#: What every box has, besides what may be passed through to it.
_FIXED = ("PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "PWD")


class EnvRules:
    """The ``env`` block as tables."""

    def __init__(self, env: EnvPolicy, *, layer: str, absent: str) -> None:
        self._layer = layer
        self._absent = absent
        exact = [(rule.text, rule) for rule in rules("$.env.unsafe_allow", env.unsafe_allow)]
        exact += [
            (name, Rule(order, f"$.env.set.{name}", name))
            for order, (name, _) in enumerate(env.set)
        ]
        self._exact: dict[str, Rule] = dict(reversed(exact))
        self._unsafe = frozenset(env.unsafe_allow)
        self._allow = GlobTable((rule.text, rule) for rule in rules("$.env.allow", env.allow))
        floor = [(name, Rule(0, "builtin:floor", name)) for name in (*FLOOR, *_FIXED)]
        self._floor = GlobTable(floor)

    def judge(self, name: str) -> Decision:
        """The verdict on seeing a variable."""
        if rule := self._named(name):
            return Decision("allow", "env.name", rule.path, self._layer, name)
        if floor := self._floor.find(name):
            return Decision("allow", "env.name", floor[0].path, "builtin", name)
        if self._absent:
            return Decision("deny", "env.name", "$.default", "default", name, self._absent)
        detail = "no entry covers it"
        if self._allow.find(name):
            detail = "a wildcard skips names that loaders and interpreters obey"
        return Decision("deny", "env.name", "$.env.allow", self._layer, name, detail)

    def judge_set(self, name: str) -> Decision:
        """The verdict on a caller setting a variable for a program."""
        if is_control(name) and name not in self._unsafe:
            return hazard(name)
        return self.judge(name)

    def _named(self, name: str) -> Rule | None:
        if (rule := self._exact.get(name)) is not None:
            return rule
        if is_control(name):
            return None
        return min(self._allow.find(name), default=None)

    def matches(self, name: str) -> Iterator[Match]:
        """Every rule about a variable."""
        if (rule := self._exact.get(name)) is not None:
            yield Match("allow", rule.path, rule.text)
        if not is_control(name):
            for rule in self._allow.find(name):
                yield Match("allow", rule.path, rule.text)
        for rule in self._floor.find(name):
            yield Match("allow", rule.path, rule.text, "builtin")


def hazard(name: str) -> Decision:
    """The denial of setting a name that loaders or interpreters obey."""
    detail = "makes the program load or run other code; only env.unsafe_allow lifts it"
    return Decision("deny", "shell.hazard", "builtin:control", "builtin", name, detail)
