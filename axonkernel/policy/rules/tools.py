"""Tools by dotted name: the exact name, then its prefixes, then each level's ``*``."""

from __future__ import annotations

import json
from collections.abc import Iterator

from axonkernel.policy.globs import GlobTable
from axonkernel.policy.model import SubjectRules, ToolRules, Verdict
from axonkernel.policy.request import STRICTNESS, Decision, Match, ToolRequest
from axonkernel.policy.tables import Rule, rules

__all__ = ["ToolsRules", "subject_texts"]


class _Leaf:
    """What is said about one name: a verdict, or patterns on the tool's subject."""

    __slots__ = ("_allow", "_deny", "_escalate", "path", "verdict")

    def __init__(self, path: str, rule: Verdict | SubjectRules) -> None:
        self.path = path
        self.verdict: Verdict | None = None
        self._allow: GlobTable[Rule] | None = None
        if isinstance(rule, str):
            self.verdict = rule
            return
        self._deny = _table(f"{path}.deny", rule.deny)
        self._escalate = _table(f"{path}.escalate", rule.escalate)
        if rule.allow is not None:
            self._allow = _table(f"{path}.allow", rule.allow)

    def judge(self, request: ToolRequest) -> tuple[Verdict, str, str]:
        """Verdict, rule, detail."""
        if self.verdict is not None:
            return self.verdict, self.path, ""
        texts = subject_texts(request)
        if texts:
            return max(map(self._judge_text, texts), key=lambda said: STRICTNESS[said[0]])
        if self._allow is None:
            return "allow", self.path, ""
        return "deny", f"{self.path}.allow", "the call has no subject to compare"

    def _judge_text(self, text: str) -> tuple[Verdict, str, str]:
        if denied := self._deny.find(text):
            return "deny", min(denied).path, ""
        if asked := self._escalate.find(text):
            return "escalate", min(asked).path, ""
        if self._allow is None:
            return "allow", self.path, ""
        if allowed := self._allow.find(text):
            return "allow", min(allowed).path, ""
        return "deny", f"{self.path}.allow", "no pattern matches its subject"

    def matches(self, request: ToolRequest) -> Iterator[Match]:
        if self.verdict is not None:
            yield Match(self.verdict, self.path, self.verdict)
            return
        verdicts: tuple[tuple[Verdict, GlobTable[Rule] | None], ...] = (
            ("deny", self._deny),
            ("escalate", self._escalate),
            ("allow", self._allow),
        )
        for text in subject_texts(request):
            for verdict, table in verdicts:
                for rule in table.find(text) if table is not None else ():
                    yield Match(verdict, rule.path, rule.text)


class _Level:
    """One level of the map."""

    __slots__ = ("below", "named", "others")

    def __init__(self, path: str, level: ToolRules) -> None:
        self.named: dict[str, _Leaf] = {}
        self.below: dict[str, _Level] = {}
        self.others: _Leaf | None = None
        for name, item in level.entries:
            if isinstance(item, ToolRules):
                self.below[name] = _Level(f"{path}.{name}", item)
            elif name == "*":
                self.others = _Leaf(f'{path}["*"]', item)
            else:
                self.named[name] = _Leaf(f"{path}.{name}", item)


class ToolsRules:
    """The ``tools`` map as nested tables."""

    def __init__(self, tools: ToolRules, *, layer: str, absent: str) -> None:
        self._layer = layer
        self._absent = absent
        self._top = _Level("$.tools", tools)

    def judge(self, request: ToolRequest) -> Decision:
        """The verdict on a tool by its name and the patterns on its subject."""
        if leaves := list(self._leaves(request.name)):
            verdict, rule, detail = leaves[-1].judge(request)
            return Decision(verdict, "tool", rule, self._layer, request.name, detail)
        if self._absent:
            return Decision("deny", "tool", "$.default", "default", request.name, self._absent)
        return Decision("deny", "tool", "$.tools", self._layer, request.name, "no entry covers it")

    def _leaves(self, name: str) -> Iterator[_Leaf]:
        """What is said about a name, from the least to the most specific."""
        level = self._top
        if level.others is not None:
            yield level.others
        for part in name.split("."):
            if (leaf := level.named.get(part)) is not None:
                yield leaf
                return
            if part not in level.below:
                return
            level = level.below[part]
            if level.others is not None:
                yield level.others

    def matches(self, request: ToolRequest) -> Iterator[Match]:
        """What is said about a tool, the most specific last; that one decides."""
        for leaf in self._leaves(request.name):
            yield from leaf.matches(request)


def _table(path: str, texts: tuple[str, ...]) -> GlobTable[Rule]:
    return GlobTable((rule.text, rule) for rule in rules(path, texts))


def subject_texts(request: ToolRequest) -> tuple[str, ...]:
    """What patterns are compared with: the typed subjects, else every text argument.

    A command is compared as its words joined by spaces.
    """
    if request.subjects:
        return tuple(
            s.value if isinstance(s.value, str) else " ".join(s.value)
            for s in request.subjects
            if s.kind != "secret"
        )
    args = json.loads(request.args)
    return tuple(value for value in args.values() if isinstance(value, str))
