"""The two glob dialects of a policy.

**Argument patterns**: ``*`` matches anything, ``/`` and newlines included. **Path patterns**:
``*`` stays in one segment, a segment ``**`` stands for any number of them. Both are anchored
and case-sensitive. ``*`` is the only metacharacter; ``\\*`` is a literal star. Brackets and
question marks are ordinary characters, since they are common in real file names.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["argument_glob", "glob_parts", "is_glob", "path_glob", "unescape"]

Test = Callable[[str], bool]


def glob_parts(pattern: str) -> list[str]:
    """The literal texts between the stars of a pattern, escapes undone."""
    parts, current, at = [], [], 0
    while at < len(pattern):
        if pattern.startswith("\\*", at):
            current.append("*")
            at += 1
        elif pattern[at] == "*":
            parts.append("".join(current))
            current = []
        else:
            current.append(pattern[at])
        at += 1
    return [*parts, "".join(current)]


def is_glob(pattern: str) -> bool:
    """True when a pattern has a star that is not escaped."""
    return "*" in pattern and len(glob_parts(pattern)) > 1


def unescape(pattern: str) -> str:
    """The text of a pattern without stars: ``\\*`` as ``*``."""
    return pattern.replace("\\*", "*")


def argument_glob(pattern: str) -> Test:
    """A test for texts in the argument dialect. Linear in the text, whatever the pattern."""
    first, *rest = glob_parts(pattern)
    if not rest:
        return first.__eq__
    *middle, last = rest
    if not any(middle) and not last:
        return lambda text: text.startswith(first)
    least = len(first) + len(last)

    def matches(text: str) -> bool:
        if len(text) < least or not text.startswith(first) or not text.endswith(last):
            return False
        at, end = len(first), len(text) - len(last)
        for part in middle:
            at = text.find(part, at, end)
            if at < 0:
                return False
            at += len(part)
        return True

    return matches


def path_glob(pattern: str) -> Test:
    """A test for absolute, normalised paths in the path dialect.

    A trailing ``/**`` stands for what is below, not for the folder itself.
    """
    segments = pattern.strip("/").split("/")
    tests = [None if segment == "**" else argument_glob(segment) for segment in segments]

    def matches(path: str) -> bool:
        states = _open_states({0}, tests)
        for name in path.strip("/").split("/"):
            states = _open_states(_step(states, name, tests), tests)
            if not states:
                return False
        return len(tests) in states

    return matches


_Tests = list[Test | None]


def _step(states: set[int], name: str, tests: _Tests) -> set[int]:
    """The states after one segment; ``None`` is ``**``, which stays where it is."""
    after: set[int] = set()
    for state in states:
        if state == len(tests):
            continue
        test = tests[state]
        if test is None:
            after |= {state, state + 1} if state + 1 == len(tests) else {state}
        elif test(name):
            after.add(state + 1)
    return after


def _open_states(states: set[int], tests: _Tests) -> set[int]:
    """Adds what can be reached by a ``**`` that stands for nothing (not the last one)."""
    opened = set(states)
    for state in sorted(states):
        while state < len(tests) - 1 and tests[state] is None:
            state += 1
            opened.add(state)
    return opened
