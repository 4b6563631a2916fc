"""The common part of two ``tools`` maps: for each name the stricter of what both say."""

from __future__ import annotations

from attrs import evolve

from axonkernel.policy.meets.names import meet_subjects, unique
from axonkernel.policy.model import SubjectRules, ToolRules, Verdict

__all__ = ["meet_tools"]

_Leaf = Verdict | SubjectRules
_Entry = _Leaf | ToolRules


def meet_tools(a: ToolRules, b: ToolRules) -> ToolRules:
    """A map that gives each tool the stricter verdict of both."""
    return a if a == b else _levels(a, b, "deny", "deny")


def _levels(a: ToolRules, b: ToolRules, above_a: _Leaf, above_b: _Leaf) -> ToolRules:
    """One level of both; ``above`` is what holds for names that a level does not mention."""
    one, two = dict(a.entries), dict(b.entries)
    rest_a, rest_b = _rest(one, above_a), _rest(two, above_b)
    entries: dict[str, _Entry] = {"*": _leaves(rest_a, rest_b)}
    for name in one.keys() | two.keys():
        if name != "*":
            entries[name] = _entries(one.get(name, rest_a), two.get(name, rest_b), rest_a, rest_b)
    return ToolRules(tuple(sorted(entries.items())))


def _rest(level: dict[str, _Entry], above: _Leaf) -> _Leaf:
    rest = level.get("*", above)
    return above if isinstance(rest, ToolRules) else rest


def _entries(a: _Entry, b: _Entry, rest_a: _Leaf, rest_b: _Leaf) -> _Entry:
    if not isinstance(a, ToolRules) and not isinstance(b, ToolRules):
        return _leaves(a, b)
    # A verdict on a name holds for everything below it.
    one, two = _level(a), _level(b)
    above_a = rest_a if isinstance(a, ToolRules) else a
    above_b = rest_b if isinstance(b, ToolRules) else b
    return _levels(one, two, above_a, above_b)


def _level(entry: _Entry) -> ToolRules:
    return entry if isinstance(entry, ToolRules) else ToolRules()


def _leaves(a: _Leaf, b: _Leaf) -> _Leaf:
    if "deny" in (a, b):
        return "deny"
    if a == "allow" or a == b:
        return b
    if b == "allow":
        return a
    if isinstance(a, SubjectRules) and isinstance(b, SubjectRules):
        return meet_subjects(a, b)
    rules = a if isinstance(a, SubjectRules) else b
    assert isinstance(rules, SubjectRules)  # the other one is "escalate"
    return _escalated(rules)


def _escalated(rules: SubjectRules) -> SubjectRules:
    """Patterns whose every allow becomes a question; a call without a subject is denied."""
    asked = ("*",) if rules.allow is None else rules.allow
    return evolve(rules, allow=rules.allow or (), escalate=unique(rules.escalate, asked))
