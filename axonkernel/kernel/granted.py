"""What a worker keeps of the files and programs, as Landlock takes it.

The grants of Landlock add up and cannot take anything out again. So where a policy takes names
out of a grant, the grant is written out around them: what is there is granted name by name, and
what comes up later beside a name that was taken out is closed.
"""

from __future__ import annotations

import glob
import os
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from axonkernel.box.host import Ask, survey
from axonkernel.box.interpreter import interpreter_files
from axonkernel.box.names import Entry, expand, other_names
from axonkernel.policy.model import FsPolicy, Policy, ShellPolicy
from axonkernel.policy.protect import DEFAULT_PROTECT
from axonkernel.policy.request import PathRequest
from axonkernel.policy.rules.fs import NONE, READ, WRITE, FsRules

if TYPE_CHECKING:
    from axonkernel.kernel.core import Core
    from axonkernel.kernel.scope import Layer, Scope

__all__ = ["Tree", "floor"]

_LOADERS = ("/lib*/ld-*.so*", "/lib/*/ld-*.so*", "/usr/lib*/ld-*.so*", "/usr/lib/*/ld-*.so*")
#: Read wherever names are resolved.
_NAMES = ("/etc/hosts", "/etc/resolv.conf")


def floor(
    core: Core, shell: ShellPolicy | None, walled: bool, own: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """What every worker can read, and the programs that it may start.

    In a box that is what the box has, less the programs that the request does not have.
    """
    key = ("floor", shell)
    found = core.kept.get(key)
    if found is None:
        found = core.kept[key] = _least(dict.fromkeys(_surveyed(core, shell, walled)))
    yield from found
    yield from ((path, "r") for path in own)


def _least(grants: Iterable[tuple[str, str]]) -> tuple[tuple[str, str], ...]:
    """Without what another one grants as well."""
    rights = {path: set(letters) for path, letters in grants}

    def is_covered(path: str, letters: str) -> bool:
        above = path
        while above != "/":
            above = os.path.dirname(above)
            if above in rights and rights[above].issuperset(letters):
                return True
        return False

    return tuple(each for each in grants if not is_covered(*each))


def _surveyed(core: Core, shell: ShellPolicy | None, walled: bool) -> Iterator[tuple[str, str]]:
    bare = Policy(fs=FsPolicy(), shell=shell if walled else None)
    host = survey(bare, Ask("agent", "/", read=interpreter_files()), core.environ, None)
    run = "" if walled else "x"
    read = [*host.libraries, *host.copied, *_NAMES, *(entry.path for entry in host.shared)]
    read += [entry.path for entry in host.extra]
    yield from ((os.path.realpath(path), "r" + run) for path in read)
    if not walled:
        yield from ((path, "rx") for path in ("/usr", *host.bins))
    folders = (*host.program_folders, *(program.file for program in host.programs))
    yield from ((os.path.realpath(path), "rx") for path in folders)
    if walled and host.programs:
        for pattern in _LOADERS:
            yield from ((os.path.realpath(path), "rx") for path in glob.glob(pattern))


def _level(table: FsRules, path: str) -> int:
    """What one policy says of a path, patterns included."""
    for level, write in ((WRITE, True), (READ, False)):
        if table.judge(PathRequest(path, write)).verdict == "allow":
            return level
    return NONE


class Tree:
    """The fs rules of some layers as Landlock takes them."""

    def __init__(self, core: Core, scope: Scope, layers: tuple[Layer, ...]) -> None:
        self._tables = [each.ruleset.fs for each in scope.layers if each.ruleset.fs is not None]
        points: set[str] = set()
        for table in self._tables:
            points.update(table.entries)
        self._levels = {path: self._level(path) for path in points}
        own = {path for table in self._tables for path in table.mentioned()}
        grants = sorted(path for path in own if self._levels[path] > NONE)
        for entry in self._taken_out(layers, grants, core):
            for path in {entry.path, entry.link or entry.path}:
                self._levels[path] = self._level(path)
        for entry in self._denied(layers, grants):
            for path in {entry.path, entry.link or entry.path}:
                self._levels[path] = NONE
        self._sorted = sorted(self._levels)

    def rules(self) -> Iterator[tuple[str, str]]:
        """(path, rights), rights as landlock.Rules has them."""
        for path in self._sorted:
            level = self._levels[path]
            if level > self._above(path):
                yield from self._around(path, level)

    def _level(self, path: str) -> int:
        return min((_level(table, path) for table in self._tables), default=NONE)

    def _above(self, path: str) -> int:
        while path != "/":
            path = os.path.dirname(path)
            if path in self._levels:
                return self._levels[path]
        return NONE

    def _denied(self, layers: tuple[Layer, ...], grants: list[str]) -> Iterator[Entry]:
        for layer in layers:
            fs = layer.policy.closed().fs
            if fs is not None and fs.deny:
                denied = tuple(expand(fs.deny, grants))
                yield from denied
                yield from other_names(denied, grants)

    def _taken_out(
        self, layers: tuple[Layer, ...], grants: list[str], core: Core
    ) -> Iterator[Entry]:
        """What is protected inside what may be written; a box holds that already."""
        written = [path for path in grants if self._levels[path] == WRITE]
        for layer in () if core.inside else layers:
            fs = layer.policy.closed().fs
            if fs is not None and fs.write and written:
                protect = DEFAULT_PROTECT if fs.protect is None else fs.protect
                yield from (e for e in expand(protect, written) if e.kind != "missing")

    def _around(self, path: str, level: int) -> Iterator[tuple[str, str]]:
        """The rules that grant ``level`` at a path but for what is less below it."""
        lower = [p for p in self._below(path) if self._levels[p] < self._nearest(p, path, level)]
        if not lower:
            yield path, "rw" if level == WRITE else "r"
            return
        if not any(self._levels[p] == NONE and os.path.isdir(p) for p in lower):
            yield path, "l"
        try:
            with os.scandir(path) as entries:
                names = [entry.path for entry in entries if not entry.is_symlink()]
        except OSError:
            return
        for each in names:
            if each not in self._levels:
                yield from self._around(each, level)
            elif NONE < self._levels[each] <= level:
                yield from self._around(each, self._levels[each])

    def _nearest(self, path: str, top: str, level: int) -> int:
        """The level of the nearest point above ``path``, which is below ``top``."""
        while (path := os.path.dirname(path)) not in (top, "/"):
            if path in self._levels:
                return self._levels[path]
        return level

    def _below(self, folder: str) -> list[str]:
        start = f"{folder.rstrip('/')}/"
        first = bisect_left(self._sorted, start)
        found = []
        for path in self._sorted[first:]:
            if not path.startswith(start):
                break
            found.append(path)
        return found
