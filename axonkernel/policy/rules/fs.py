"""Paths: the most specific entry wins, pattern denies always win.

The same holds for the mounts of a box (deeper wins), so that both layers say the same:
``read`` inside ``write`` is read-only, ``write`` below a literal ``deny`` is writable. The
same path in ``deny`` and in a grant is denied. What is protected is read-only unless a write
grant names it, or a path below it. ``unsafe`` is a write grant (a read grant when ``read``
names the path too) that also covers control sockets and kernel folders.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from attrs import frozen

from axonkernel.policy.controls import control_path
from axonkernel.policy.globs import PathGlobs, is_glob, unescape
from axonkernel.policy.match import normalize
from axonkernel.policy.model import FsPolicy, Verdict
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
        host: what the box's own policy grants of the host. Below a private folder (a project
            in the home) it is not private: a narrower layer that is silent closes it.
        brokered: programs that run only outside it, by their files.
    """

    write: tuple[str, ...] = ()
    read: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    brokered: tuple[str, ...] = ()


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
        self._end_private(boxed.host if boxed else ())
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
        self._grant("write", fs.write, WRITE)
        for rule in rules("$.fs.unsafe", fs.unsafe):
            level = READ if rule.text in fs.read else WRITE
            self._add(rule, rule.text, level, self._layer)
        self._grant("read", fs.read, READ)
        for rule in _literals("$.fs.protect", protect):
            path = unescape(rule.text)
            entry = self.entries.get(path, Entry(None, rule, self._layer))
            self.entries[path] = entry._replace(protected=rule)

    def _grant(self, name: str, paths: tuple[str, ...], level: int) -> None:
        for rule in rules(f"$.fs.{name}", paths):
            self._add(rule, rule.text, level, self._layer)

    def _end_private(self, paths: Iterable[str]) -> None:
        """At each path the policy's own word counts again, whatever the box grants above it."""
        found = [(path, *self._nearest(path)) for path in paths]
        for path, entry, _, protected in found:
            if entry is None or entry.level is None:
                self._add(Rule(0, "box", path), path, NONE, "box")
            else:
                level = READ if protected and entry.level == WRITE else entry.level
                self._add(entry.rule, path, level, entry.layer)

    def _add(self, rule: Rule, path: str, level: int, layer: str) -> None:
        """The first word about a path stays, so the order of calls is the precedence."""
        entry = self.entries.get(path)
        if entry is None:
            self.entries[path] = Entry(level, rule, layer)
        elif entry.level is None:
            self.entries[path] = Entry(level, rule, layer, entry.protected)

    def judge(self, request: PathRequest) -> Decision:
        """The verdict on a path that is well formed."""
        path, write = normalize(request.path), request.write
        code = "fs.write" if write else "fs.read"
        if self._deny.any and (denied := self._deny.find(path)):
            return _deny(code, min(denied), self._layer, path, "a denied pattern")
        entry, at, protected = self._nearest(path)
        if entry is None:
            return self._uncovered(code, path)
        if entry.level == NONE:
            return _deny(code, entry.rule, entry.layer, path, f"below {at}")
        if entry.layer in ("box", "builtin"):
            protected = None  # private to the box: nobody outside obeys what is written there
        elif control := self._control(path):
            detail = f"{control} is granted by fs.unsafe only"
            return _deny(code, Rule(0, "builtin:control", control), "builtin", path, detail)
        elif write and protected is None and (found := self._protect.find(path, below=at)):
            protected = min(found)
        if write and entry.level == READ:
            return _deny(code, entry.rule, entry.layer, path, "granted for reading only")
        if write and protected is not None:
            return _deny(code, protected, self._layer, path, "protected")
        return Decision("allow", code, entry.rule.path, entry.layer, path)

    def _nearest(self, path: str) -> tuple[Entry | None, str, Rule | None]:
        """The entry that decides, its path, and the protection found on the way up to it."""
        entries = self.entries
        protected = None
        while True:
            entry = entries.get(path)
            if entry is not None:
                if entry.protected is not None and entry.level != WRITE:
                    protected = protected or entry.protected
                if entry.level is not None:
                    return entry, path, protected
            if path == "/":
                return None, path, protected
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

    def mentioned(self) -> Iterator[str]:
        """The paths where what is granted can change. For narrowing."""
        return (path for path, entry in self.entries.items() if entry.layer == self._layer)

    def level(self, path: str) -> int:
        """What is granted at a path, but for pattern denies. For narrowing."""
        entry, at, protected = self._nearest(path)
        if entry is None or not entry.level:
            return NONE
        if entry.layer == self._layer and self._control(path):
            return NONE
        if protected is not None or self._protect.find(path, below=at):
            return READ
        return entry.level

    def matches(self, request: PathRequest) -> Iterator[Match]:
        """Every rule about a path or a folder above it."""
        path = normalize(request.path)
        yield from (Match("deny", rule.path, rule.text) for rule in self._deny.find(path))
        for folder in ancestors(path):
            entry = self.entries.get(folder)
            if entry is not None and entry.level is not None:
                enough = entry.level >= (WRITE if request.write else READ)
                verdict: Verdict = "allow" if enough else "deny"
                yield Match(verdict, entry.rule.path, entry.rule.text, entry.layer)
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
