"""The two glob dialects of a policy, and tables of patterns.

**Argument patterns**: ``*`` matches anything, ``/`` and newlines included. **Path patterns**:
``*`` stays in one segment, a segment ``**`` stands for any number of them. Both are anchored
and case-sensitive. ``*`` is the only metacharacter; ``\\*`` is a literal star. Brackets and
question marks are ordinary characters, since they are common in real file names.

Many patterns are merged into tables, so that asking costs the same with ten and with ten
thousand of them; a table answers with every pattern that matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

__all__ = [
    "GlobTable",
    "PathGlobs",
    "argument_glob",
    "escape",
    "glob_parts",
    "is_glob",
    "path_glob",
    "unescape",
]

Test = Callable[[str], bool]
T = TypeVar("T")


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


def escape(text: str) -> str:
    """The argument pattern that matches just ``text``."""
    return text.replace("*", "\\*")


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


class GlobTable(Generic[T]):
    """Argument patterns by what is fixed about them: all of it, their start, or their end."""

    __slots__ = ("_ends", "_exact", "_other", "_starts", "any")

    def __init__(self, items: Iterable[tuple[str, T]]) -> None:
        self._exact: dict[str, list[T]] = {}
        starts: dict[int, dict[str, list[tuple[Test, T]]]] = {}
        ends: dict[int, dict[str, list[tuple[Test, T]]]] = {}
        self._other: list[tuple[Test, T]] = []
        self.any = False
        for pattern, value in items:
            self.any = True
            first, *rest = glob_parts(pattern)
            entry = argument_glob(pattern), value
            if not rest:
                self._exact.setdefault(first, []).append(value)
            elif first:
                starts.setdefault(len(first), {}).setdefault(first, []).append(entry)
            elif rest[-1]:
                ends.setdefault(len(rest[-1]), {}).setdefault(rest[-1], []).append(entry)
            else:
                self._other.append(entry)
        self._starts = tuple(sorted(starts.items()))
        self._ends = tuple(sorted(ends.items()))

    def find(self, text: str) -> Sequence[T]:
        """The values of all patterns that match."""
        found: Sequence[T] = self._exact.get(text, ())
        for length, bucket in self._starts:
            if entries := bucket.get(text[:length]):
                found = [*found, *(value for test, value in entries if test(text))]
        for length, bucket in self._ends:
            if entries := bucket.get(text[-length:]):
                found = [*found, *(value for test, value in entries if test(text))]
        if self._other:
            found = [*found, *(value for test, value in self._other if test(text))]
        return found


class _Node(Generic[T]):
    """One position in the merged path patterns."""

    __slots__ = ("below", "deep", "ends", "named", "patterns", "starred", "sticky")

    def __init__(self, sticky: bool = False) -> None:
        self.named: dict[str, _Node[T]] = {}
        self.starred: dict[str, _Node[T]] = {}
        self.patterns: GlobTable[_Node[T]] | None = None
        #: Where a ``**`` leads; it stays there for any number of segments.
        self.deep: _Node[T] | None = None
        self.sticky = sticky
        self.ends: list[T] = []
        #: Patterns whose last segment is the ``**`` of this position.
        self.below: list[T] = []

    def child(self, segment: str) -> _Node[T]:
        if segment == "**":
            self.deep = self.deep or _Node(sticky=True)
            return self.deep
        parts = glob_parts(segment)
        if len(parts) == 1:
            return self.named.setdefault(parts[0], _Node())
        return self.starred.setdefault(segment, _Node())

    def seal(self) -> None:
        if self.starred:
            self.patterns = GlobTable(self.starred.items())
        for node in (*self.named.values(), *self.starred.values()):
            node.seal()
        if self.deep is not None:
            self.deep.seal()


class PathGlobs(Generic[T]):
    """Path patterns merged into one tree. A pattern covers what lies below its matches too."""

    __slots__ = ("_root", "_start", "any")

    def __init__(self, items: Iterable[tuple[str, T]]) -> None:
        self._root: _Node[T] = _Node()
        self.any = False
        for pattern, value in items:
            self.any = True
            self._insert(pattern, value)
        self._root.seal()
        self._start: Sequence[_Node[T]] = _opened([self._root])

    def _insert(self, pattern: str, value: T) -> None:
        *folders, last = pattern.strip("/").split("/")
        node = self._root
        for segment in folders:
            node = node.child(segment)
        node = node.child(last)
        (node.below if last == "**" else node.ends).append(value)

    def find(self, path: str, below: str = "/") -> list[T]:
        """The values of all patterns that match an absolute, normalised path or one above.

        Matches at ``below`` and above it, a folder on the way to the path, do not count.
        """
        found: list[T] = []
        states = self._start
        skipped = 0 if below == "/" else below.count("/")
        for depth, name in enumerate(path[1:].split("/")):
            states, matched = _step(states, name)
            if matched and depth >= skipped:
                found += matched
            if not states:
                break
        return found

    def exactly(self, path: str) -> bool:
        """Whether some pattern matches the path itself."""
        states = self._start
        matched: Sequence[T] = ()
        for name in path[1:].split("/"):
            states, matched = _step(states, name)
        return bool(matched)


def _step(states: Sequence[_Node[T]], name: str) -> tuple[Sequence[_Node[T]], Sequence[T]]:
    """The states after one segment, and the values of the patterns that end there."""
    after: list[_Node[T]] = []
    matched: Sequence[T] = ()
    for state in states:
        node = state.named.get(name)
        if node is not None:
            after.append(node)
            if node.ends:
                matched = [*matched, *node.ends]
        if state.patterns is not None:
            for node in state.patterns.find(name):
                after.append(node)
                matched = [*matched, *node.ends]
        if state.sticky:
            after.append(state)
            if state.below:
                matched = [*matched, *state.below]
    return _opened(after), matched


def _opened(states: list[_Node[T]]) -> list[_Node[T]]:
    """The states and those behind each ``**``, which may stand for nothing."""
    for state in states:
        if state.deep is not None and state.deep not in states:
            states.append(state.deep)
    return states


def path_glob(pattern: str) -> Test:
    """A test for absolute, normalised paths: true for the matches, not for what is below.

    A trailing ``/**`` stands for what is below a folder, not for the folder.
    """
    return PathGlobs([(pattern, None)]).exactly
