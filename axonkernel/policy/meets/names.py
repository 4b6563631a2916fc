"""The common part of two lists of patterns, programs or variable names.

Exact where one pattern contains the other, which is how policies are written; two patterns
that only overlap (``a*`` and ``*b``) have no common pattern and grant nothing together.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from axonkernel.policy.controls import is_control
from axonkernel.policy.globs import GlobTable, argument_glob, is_glob, unescape
from axonkernel.policy.match import pattern_tokens
from axonkernel.policy.model import ArgsRules, EnvPolicy, ShellPolicy, SubjectRules
from axonkernel.policy.rules.shell import STANDARD_PATH

__all__ = ["common_patterns", "meet_args", "meet_env", "meet_shell", "meet_subjects", "unique"]


def unique(a: Iterable[str], b: Iterable[str]) -> tuple[str, ...]:
    """Both lists, each entry once."""
    return tuple(dict.fromkeys((*a, *b)))


def contains(wide: str, narrow: str) -> bool:
    """Whether everything that matches ``narrow`` matches ``wide``, when that is easy to see."""
    if wide in (narrow, "*"):
        return True
    if not is_glob(narrow):
        return argument_glob(wide)(unescape(narrow))
    # Only a pattern with one star at its end is compared with another.
    stem = wide[:-1]
    return wide.endswith("*") and not is_glob(stem) and narrow.startswith(stem)


def common_patterns(a: Iterable[str], b: Iterable[str]) -> tuple[str, ...]:
    """The patterns of each list that the other contains."""
    return unique(_inside(a, tuple(b)), _inside(b, tuple(a)))


def _inside(narrow: Iterable[str], wide: tuple[str, ...]) -> Iterable[str]:
    literal = GlobTable((pattern, pattern) for pattern in wide)
    for pattern in narrow:
        if is_glob(pattern):
            if any(contains(each, pattern) for each in wide):
                yield pattern
        elif literal.find(unescape(pattern)):
            yield pattern


def meet_shell(a: ShellPolicy, b: ShellPolicy) -> ShellPolicy:
    """The programs both blocks allow, with the argument rules of both."""
    if a == b:
        return a
    allow = _programs(a, b)
    names = dict.fromkeys(name for name, _ in (*a.args, *b.args))
    one, two = dict(a.args), dict(b.args)
    args = ((name, meet_args(one.get(name), two.get(name))) for name in sorted(names))
    spawns = [each for each in (a.spawn, b.spawn) if each is not None]
    return ShellPolicy(
        allow=allow,
        deny=unique(a.deny, b.deny),
        args=tuple(args),
        raw=a.raw and b.raw,
        spawn=min(spawns, default=None),
        unsafe=tuple(each for each in a.unsafe if each in b.unsafe),
        path=_path(a.path, b.path),
        profiles=unique(a.profiles, b.profiles),
    )


def _path(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    """The folders of both; the first list's when they share none, since () means any."""
    if not a or not b:
        return a or b
    return tuple(folder for folder in a if folder in b) or a


def _programs(a: ShellPolicy, b: ShellPolicy) -> tuple[str, ...] | Literal[True]:
    if a.allow is True:
        return b.allow
    if b.allow is True:
        return a.allow
    names_a, paths_a = _split(a.allow)
    names_b, paths_b = _split(b.allow)
    found = set(common_patterns(names_a, names_b))
    found |= set(paths_a) & set(paths_b)
    found |= _found_by_name(paths_a, names_b, b.path) | _found_by_name(paths_b, names_a, a.path)
    return tuple(each for each in unique(a.allow, b.allow) if each in found)


def _split(programs: tuple[str, ...]) -> tuple[list[str], list[str]]:
    paths = [each for each in programs if "/" in each]
    return [each for each in programs if "/" not in each], paths


def _found_by_name(paths: list[str], names: list[str], folders: tuple[str, ...]) -> set[str]:
    """The paths that bare names grant too: those in a folder of their search path."""
    table = GlobTable((name, name) for name in names)
    where = frozenset(folders or STANDARD_PATH)
    return {
        path
        for path in paths
        if (path.rpartition("/")[0] or "/") in where and table.find(path.rpartition("/")[2])
    }


def meet_args(a: ArgsRules | None, b: ArgsRules | None) -> ArgsRules:
    """The rules of both; of two ``allow`` lists, the patterns that the other contains."""
    if a is None or b is None or a == b:
        return a or b or ArgsRules()
    allow = b.allow if a.allow is None else a.allow
    if a.allow is not None and b.allow is not None:
        one = (each for each in a.allow if any(_contains_words(w, each) for w in b.allow or ()))
        two = (each for each in b.allow if any(_contains_words(w, each) for w in a.allow or ()))
        allow = unique(one, two)
    escalate, deny = _meet_questions(a, b)
    return ArgsRules(allow, deny, escalate)


def _meet_questions(
    a: ArgsRules | SubjectRules, b: ArgsRules | SubjectRules
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is asked about, and what is denied.

    One side's question about something that the other side's closed list may not offer
    is a denial: asked, it would be granted past that list.
    """
    asked = [each for each in a.escalate if b.allow is None or each in b.escalate]
    asked += [each for each in b.escalate if a.allow is None or each in a.escalate]
    refused = [each for each in unique(a.escalate, b.escalate) if each not in asked]
    return unique(asked, ()), unique(unique(a.deny, b.deny), refused)


def _contains_words(wide: str, narrow: str) -> bool:
    """Whether an ``allow`` pattern matches all word lists that another one matches."""
    if wide == narrow:
        return True
    outer, inner = pattern_tokens(wide), pattern_tokens(narrow)
    open_ended = outer[-1:] == ("*",)
    if open_ended:
        outer = outer[:-1]
        inner = inner[:-1] if inner[-1:] == ("*",) else inner
        if len(inner) < len(outer):
            return False
    elif inner[-1:] == ("*",) or len(inner) != len(outer):
        return False
    return all(contains(w, n) for w, n in zip(outer, inner, strict=False))


def meet_subjects(a: SubjectRules, b: SubjectRules) -> SubjectRules:
    """The rules of both; of two ``allow`` lists, the patterns that the other contains."""
    allow = b.allow if a.allow is None else a.allow
    if a.allow is not None and b.allow is not None:
        allow = common_patterns(a.allow, b.allow)
    escalate, deny = _meet_questions(a, b)
    return SubjectRules(allow, deny, escalate)


def meet_env(a: EnvPolicy, b: EnvPolicy) -> EnvPolicy:
    """The variables both blocks show. Where both set one, the first block's value holds."""
    if a == b:
        return a
    one, two = dict(a.set), dict(b.set)
    fixed = {name: value for name, value in two.items() if name in one or _shows(a, name)}
    fixed |= {name: value for name, value in one.items() if name in two or _shows(b, name)}
    unsafe = tuple(name for name in a.unsafe_allow if name in b.unsafe_allow)
    plain_a = tuple(name for name in (*a.allow, *a.unsafe_allow))
    plain_b = tuple(name for name in (*b.allow, *b.unsafe_allow))
    passed = (
        name
        for name in common_patterns(plain_a, plain_b)
        if name not in fixed and (is_glob(name) or not is_control(name))
    )
    return EnvPolicy(tuple(passed), tuple(sorted(fixed.items())), unsafe)


def _shows(env: EnvPolicy, name: str) -> bool:
    if name in env.unsafe_allow:
        return True
    return not is_control(name) and any(argument_glob(each)(name) for each in env.allow)
