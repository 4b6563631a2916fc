"""Paths: the most specific entry wins, pattern denies always win.

The same holds for the mounts of a box (deeper wins), so that both layers say the same:
``read`` inside ``write`` is read-only, ``write`` below a literal ``deny`` is writable. The
same path in ``deny`` and in a grant is denied. ``unsafe`` grants nothing by itself: it lifts
the ban on control sockets and kernel folders from entries beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from attrs import frozen

from axonkernel.policy.controls import control_path
from axonkernel.policy.globs import PathGlobs, is_glob, unescape
from axonkernel.policy.match import normalize
from axonkernel.policy.model import FsPolicy
from axonkernel.policy.protect import DEFAULT_PROTECT, DEVICES, NEVER_BROUGHT
from axonkernel.policy.request import Decision, Match, PathRequest
from axonkernel.policy.tables import Rule, ancestors, rules

__all__ = ["BoxGrants", "Entry", "FsRules"]

NONE, READ, WRITE = 0, 1, 2


@frozen
class BoxGrants:
    """What a box grants by itself: private folders, and the floor of read-only files.

    Arguments:
        write, read: absolute paths, each with everything below it.
    """

    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()


class Entry(NamedTuple):
    """What a policy says at one path: a level, or only that it is protected."""

    level: int | None
    rule: Rule
    layer: str
    protected: Rule | None = None


class FsRules:
    """The ``fs`` block as tables: literal paths by name, patterns in one tree."""

    def __init__(self, fs: FsPolicy, *, layer: str, absent: str, boxed: BoxGrants | None) -> None:
        self._layer = layer
        self._absent = absent
        self._deny = PathGlobs(_globs("$.fs.deny", fs.deny))
        protect = DEFAULT_PROTECT if fs.protect is None else fs.protect
        self._protect = PathGlobs(_globs("$.fs.protect", protect))
        self._unsafe = frozenset(fs.unsafe)
        self.entries: dict[str, Entry] = {}
        self._add_policy(fs, protect)
        for path in boxed.write if boxed else ():
            self._add(Rule(0, "box", path), path, WRITE, "box")
        for path in boxed.read if boxed else ():
            self._add(Rule(0, "box", path), path, READ, "box")
        for path in DEVICES:
            self._add(Rule(0, "builtin:devices", path), path, WRITE, "builtin")
        for path in NEVER_BROUGHT:
            self._add(Rule(0, "builtin:host", path), path, NONE, "builtin")

    def _add_policy(self, fs: FsPolicy, protect: tuple[str, ...]) -> None:
        for rule in _literals("$.fs.deny", fs.deny):
            self._add(rule, unescape(rule.text), NONE, self._layer)
        for level, name, paths in ((WRITE, "write", fs.write), (READ, "read", fs.read)):
            for rule in rules(f"$.fs.{name}", paths):
                self._add(rule, rule.text, level, self._layer)
        for rule in _literals("$.fs.protect", protect):
            path = unescape(rule.text)
            entry = self.entries.get(path, Entry(None, rule, self._layer))
            self.entries[path] = entry._replace(protected=rule)

    def _add(self, rule: Rule, path: str, level: int, layer: str) -> None:
        """The first word about a path stays, so the order of calls is the precedence."""
        entry = self.entries.get(path)
        if entry is None:
            self.entries[path] = Entry(level, rule, layer)
        elif entry.level is None:
            self.entries[path] = Entry(level, rule, layer, entry.protected)

    def judge(self, request: PathRequest) -> Decision:
        """The verdict on a path that is well formed (see :func:`malformed`)."""
        path, write = normalize(request.path), request.write
        code = "fs.write" if write else "fs.read"
        if self._deny.any and (denied := self._deny.find(path)):
            return _deny(code, min(denied), self._layer, path, "a denied pattern")
        entry, protected = self._nearest(path, write)
        if protected is not None:
            return _deny(code, protected, self._layer, path, "protected")
        if entry is None:
            return self._uncovered(code, path)
        if entry.level == NONE:
            return _deny(code, entry.rule, entry.layer, path, f"below {entry.rule.text}")
        if write and entry.level == READ:
            return _deny(code, entry.rule, entry.layer, path, "granted for reading only")
        return self._granted(code, path, write, entry)

    def _granted(self, code: str, path: str, write: bool, entry: Entry) -> Decision:
        """A grant, unless something that no ordinary grant covers lies there."""
        if entry.layer == "builtin" or entry.layer == "box":
            return Decision("allow", code, entry.rule.path, entry.layer, path)
        if control := self._control(path):
            rule = Rule(0, "builtin:control", control)
            return _deny(code, rule, "builtin", path, f"{control} has to be in fs.unsafe too")
        if write and self._protect.any and (found := self._protect.find(path)):
            return _deny(code, min(found), self._layer, path, "protected")
        return Decision("allow", code, entry.rule.path, entry.layer, path)

    def _nearest(self, path: str, write: bool) -> tuple[Entry | None, Rule | None]:
        """The entry that decides, and the protection found on the way down to it."""
        entries = self.entries
        while True:
            entry = entries.get(path)
            if entry is not None:
                if write and entry.protected is not None:
                    return entry, entry.protected
                if entry.level is not None:
                    return entry, None
            if path == "/":
                return None, None
            path = path[: path.rfind("/")] or "/"

    def _uncovered(self, code: str, path: str) -> Decision:
        if self._absent:
            return Decision("deny", code, "$.default", "default", path, self._absent)
        return Decision("deny", code, f"$.{code}", self._layer, path, "no entry covers it")

    def _control(self, path: str) -> str | None:
        """The control socket or kernel folder a path lies in, if ``fs.unsafe`` is silent."""
        if not path.startswith(_CONTROL_STARTS) and ".sock" not in path and "/S.gpg" not in path:
            return None
        control = control_path(path)
        if control is None or any(folder in self._unsafe for folder in ancestors(path)):
            return None
        return control

    def level(self, path: str) -> int:
        """What the literal entries grant at a path; patterns are left out. For narrowing."""
        entry, _ = self._nearest(path, write=False)
        if entry is None or not entry.level:
            return NONE
        if entry.layer == self._layer and self._control(path):
            return NONE
        _, protected = self._nearest(path, write=True)
        return min(entry.level, READ) if protected is not None else entry.level

    def matches(self, request: PathRequest) -> Iterator[Match]:
        """Every rule about a path or a folder above it."""
        path = normalize(request.path)
        yield from (Match("deny", rule.path, rule.text) for rule in self._deny.find(path))
        for folder in ancestors(path):
            entry = self.entries.get(folder)
            if entry is not None and entry.level is not None:
                enough = entry.level >= (WRITE if request.write else READ)
                yield Match("allow" if enough else "deny", entry.rule.path, entry.rule.text)
            if request.write and entry is not None and entry.protected is not None:
                yield Match("deny", entry.protected.path, entry.protected.text)
        if request.write:
            yield from (Match("deny", rule.path, rule.text) for rule in self._protect.find(path))


_CONTROL_STARTS = ("/proc", "/sys", "/run/", "/tmp/", "/var/run/")


def _globs(path: str, texts: Iterable[str]) -> Iterator[tuple[str, Rule]]:
    return ((rule.text, rule) for rule in rules(path, texts) if is_glob(rule.text))


def _literals(path: str, texts: Iterable[str]) -> Iterator[Rule]:
    return (rule for rule in rules(path, texts) if not is_glob(rule.text))


def _deny(code: str, rule: Rule, layer: str, path: str, detail: str) -> Decision:
    return Decision("deny", code, rule.path, layer, path, detail)
