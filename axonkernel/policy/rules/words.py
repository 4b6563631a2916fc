"""Argument rules of one program: loose for deny and escalate, strict for allow.

A rule that forbids must not be dodged by word order; one that permits must not be widened
by it. Loose: each token of the pattern matches some word. Strict: token by token, where a
final ``*`` of its own stands for any number of further words. A glued star (``status*``)
stays inside its word.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from axonkernel.policy.globs import GlobTable, Test, argument_glob
from axonkernel.policy.match import pattern_tokens
from axonkernel.policy.model import ArgsRules, Verdict
from axonkernel.policy.profiles import Profile
from axonkernel.policy.profiles.spellings import spellings, subcommand_of
from axonkernel.policy.request import Argv, Match
from axonkernel.policy.tables import Rule, rules

__all__ = ["WordsRules", "WordsVerdict"]


class _Pattern(NamedTuple):
    rule: Rule
    tokens: tuple[str, ...]
    tests: tuple[Test, ...]


class WordsVerdict(NamedTuple):
    """What argument rules say: a verdict (None is no opinion), and why."""

    verdict: Verdict | None
    path: str
    detail: str = ""


def _pattern(rule: Rule) -> _Pattern:
    tokens = pattern_tokens(rule.text)
    return _Pattern(rule, tokens, tuple(argument_glob(token) for token in tokens))


class _AnyOrder:
    """Patterns each of whose tokens must match some word, found by one of them."""

    def __init__(self) -> None:
        self.any = False
        self._always: list[Rule] = []
        self._keyed: list[tuple[str, _Pattern]] = []
        self._table: GlobTable[_Pattern] = GlobTable(())

    def add(self, pattern: _Pattern) -> None:
        self.any = True
        if not pattern.tokens:
            self._always.append(pattern.rule)
            return
        # A token without a star is the fastest to find a pattern by.
        key = next((token for token in pattern.tokens if "*" not in token), pattern.tokens[0])
        self._keyed.append((key, pattern))

    def seal(self) -> None:
        self._table = GlobTable(self._keyed)

    def find(self, words: Argv) -> list[Rule]:
        found = list(self._always)
        if not self._keyed:
            return found
        seen: dict[str, bool] = {}
        candidates = {id(p): p for word in dict.fromkeys(words) for p in self._table.find(word)}
        for pattern in candidates.values():
            if _all_match(pattern, words, seen):
                found.append(pattern.rule)
        return found


def _all_match(pattern: _Pattern, words: Argv, seen: dict[str, bool]) -> bool:
    for token, test in zip(pattern.tokens, pattern.tests, strict=True):
        if token not in seen:
            seen[token] = any(map(test, words))
        if not seen[token]:
            return False
    return True


class _Loose:
    """Patterns that match in any order, by subcommand where the program has some."""

    def __init__(self, lines: Iterable[Rule], by_subcommand: bool) -> None:
        self._no_words: list[Rule] = []
        self._words = _AnyOrder()
        heads: dict[str, _AnyOrder] = {}
        for pattern in map(_pattern, lines):
            short = _without_final_stars(pattern)
            if not pattern.tokens:
                self._no_words.append(pattern.rule)
            elif by_subcommand and short.tokens:
                head = heads.setdefault(short.tokens[0], _AnyOrder())
                head.add(short._replace(tokens=short.tokens[1:], tests=short.tests[1:]))
            else:
                self._words.add(short)
        for table in (self._words, *heads.values()):
            table.seal()
        self._heads = GlobTable(heads.items())
        self.any = bool(heads or self._no_words or self._words.any)

    def find(self, words: Argv, subcommands: tuple[str, ...]) -> list[Rule]:
        if not self.any:
            return []
        found = self._words.find(words) if words else [*self._no_words, *self._words.find(words)]
        for name in subcommands:
            for head in self._heads.find(name):
                found += head.find(words)
        return found


def _without_final_stars(pattern: _Pattern) -> _Pattern:
    """A final ``*`` matches any words or none, so it says nothing in a loose pattern."""
    count = len(pattern.tokens)
    while count and pattern.tokens[count - 1] == "*":
        count -= 1
    return pattern._replace(tokens=pattern.tokens[:count], tests=pattern.tests[:count])


class _Strict:
    """Patterns found by their first token, then tried position by position."""

    def __init__(self, lines: Iterable[Rule]) -> None:
        self._no_words: list[Rule] = []
        keyed: list[tuple[str, _Pattern]] = []
        for pattern in map(_pattern, lines):
            if pattern.tokens in ((), ("*",)):
                self._no_words.append(pattern.rule)
            if pattern.tokens:
                keyed.append((pattern.tokens[0], pattern))
        self._table = GlobTable(keyed)

    def find(self, words: Argv) -> list[Rule]:
        if not words:
            return list(self._no_words)
        return [p.rule for p in self._table.find(words[0]) if _in_order(p, words)]


def _in_order(pattern: _Pattern, words: Argv) -> bool:
    tests = pattern.tests
    if pattern.tokens[-1] == "*":
        tests = tests[:-1]
        if len(words) < len(tests):
            return False
    elif len(words) != len(tests):
        return False
    return all(test(word) for test, word in zip(tests, words, strict=False))


class WordsRules:
    """The argument rules of one program, as tables."""

    def __init__(self, path: str, args: ArgsRules, profile: Profile | None) -> None:
        subcommands = profile is not None and profile.subcommands
        self._profile = profile
        self._path = path
        self._deny = _Loose(rules(f"{path}.deny", args.deny), subcommands)
        self._escalate = _Loose(rules(f"{path}.escalate", args.escalate), subcommands)
        self._loose = self._deny.any or self._escalate.any
        self._allow = None if args.allow is None else _Strict(rules(f"{path}.allow", args.allow))

    def judge(self, words: Argv, unseen: bool) -> WordsVerdict:
        """The verdict on a program's words; ``unseen`` when more will be added to them."""
        said, subcommands, unknown = self._read(words)
        if denied := self._deny.find(said, subcommands):
            return WordsVerdict("deny", min(denied).path)
        if unseen:
            return WordsVerdict("escalate", self._path, "it is fed words that cannot be seen")
        if asked := self._escalate.find(said, subcommands):
            return WordsVerdict("escalate", min(asked).path)
        allowed = None if self._allow is None else self._allow.find(words)
        if allowed == []:
            return WordsVerdict("deny", f"{self._path}.allow", "no pattern matches its words")
        if unknown:
            return WordsVerdict("escalate", self._path, unknown)
        return WordsVerdict("allow", min(allowed).path) if allowed else WordsVerdict(None, "")

    def _read(self, words: Argv) -> tuple[Argv, tuple[str, ...], str]:
        """The words with their other spellings, the subcommand and what it is the same as, and
        why that is not known.

        What forbids matches any spelling: ``push --force`` is ``push -f`` too.
        """
        profile = self._profile
        if profile is None or not self._loose:
            return words, (), ""
        said = (*words, *spellings(profile, words)) if words else words
        name, unknown = subcommand_of(profile, words)
        if unknown:
            why = f"{unknown} is not a known option, so the subcommand is not known"
            return said, (), why
        if name is None:
            return said, (), ""
        is_known = not profile.commands or name in profile.commands
        why = "" if is_known else f"{name} is no known subcommand: it may be an alias of another"
        return said, (name, *profile.same_as(name)), why

    def matches(self, words: Argv) -> Iterator[Match]:
        """Every pattern that matches the words."""
        said, subcommands, _ = self._read(words)
        for rule in self._deny.find(said, subcommands):
            yield Match("deny", rule.path, rule.text)
        for rule in self._escalate.find(said, subcommands):
            yield Match("escalate", rule.path, rule.text)
        for rule in self._allow.find(words) if self._allow is not None else ():
            yield Match("allow", rule.path, rule.text)
