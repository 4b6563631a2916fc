"""Program names: which may run. Verdicts depend on names alone.

A bare name in ``allow`` is that name, or its absolute path in a folder of the search path;
``./git`` is never ``git``. A path in ``allow`` is that path. ``deny`` also compares the last
part of every spelling and of the file it stands for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from axonkernel.policy.commands import SimpleCommand
from axonkernel.policy.globs import GlobTable
from axonkernel.policy.match import normalize
from axonkernel.policy.tables import Rule

__all__ = ["Program", "ProgramTable", "last_part", "program_of"]


class Program(NamedTuple):
    """The spellings of one program.

    Arguments:
        bare: as spelled without any slash, or "".
        path: its absolute, normalised spelling, or "" for a bare name.
        exact: the path can be compared with a grant: no ``..`` whose meaning depends on
            symlinks.
        absolute: it was spelled from the root.
        resolved: the file it stands for, or None.
    """

    bare: str
    path: str
    exact: bool
    absolute: bool
    resolved: str | None

    @property
    def names(self) -> tuple[str, ...]:
        """Every bare name it goes by."""
        own = self.bare or last_part(self.path)
        if self.resolved is None:
            return (own,)
        real = last_part(self.resolved)
        return (own,) if real == own else (own, real)

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path it goes by."""
        return tuple(path for path in (self.path, self.resolved) if path)


def program_of(command: SimpleCommand) -> Program:
    """The spellings of a command's program.

    A relative path in a folder that is not known is no path that can be granted. Raises
    ValueError for a relative folder.
    """
    spelled = command.program
    resolved = None if command.resolved is None else normalize(command.resolved)
    if "/" not in spelled:
        return Program(spelled, "", True, False, resolved)
    absolute = spelled.startswith("/")
    if command.cwd is None and not absolute:
        return Program("", normalize(f"/{spelled}"), False, False, resolved)
    path = normalize(spelled if absolute else f"{command.cwd}/{spelled}")
    return Program("", path, ".." not in spelled.split("/"), absolute, resolved)


class ProgramTable:
    """One list of programs."""

    def __init__(self, lines: Iterable[Rule], folders: frozenset[str]) -> None:
        self._folders = folders
        names: list[tuple[str, Rule]] = []
        self._paths: dict[str, list[Rule]] = {}
        self._found_by_name: dict[str, list[Rule]] = {}
        for rule in lines:
            if "/" not in rule.text:
                names.append((rule.text, rule))
                continue
            self._paths.setdefault(rule.text, []).append(rule)
            folder, _, name = rule.text.rpartition("/")
            if (folder or "/") in folders:
                self._found_by_name.setdefault(name, []).append(rule)
        self._names = GlobTable(names)
        self.any = bool(names or self._paths)

    def granting(self, program: Program) -> Sequence[Rule]:
        """The rules that name exactly this spelling."""
        if program.bare:
            return self._names.find(program.bare)
        if not program.exact:
            return []
        found = list(self._paths.get(program.path, ()))
        folder, _, name = program.path.rpartition("/")
        if program.absolute and (folder or "/") in self._folders:
            found += self._names.find(name)
        return found

    def covering(self, program: Program) -> list[Rule]:
        """The rules that this program falls under by any of its spellings."""
        if not self.any:
            return []
        found = [rule for name in program.names for rule in self._names.find(name)]
        if self._paths:
            for path in program.paths:
                found += self._paths.get(path, ())
            if program.bare and program.resolved is None:
                # It may be that file: which one is found first is not known here.
                found += self._found_by_name.get(program.bare, ())
        return found


def last_part(path: str) -> str:
    """The name after the last slash."""
    return path[path.rfind("/") + 1 :]
