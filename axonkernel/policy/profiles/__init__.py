"""What is known about programs: data, one small file per program in ``data/``.

A profile says which options stand before a subcommand, which options and operands name files,
and which make a program run other programs. ``data/index.toml`` names the programs that have
one, so that only the files of programs that are asked about are read.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any, Protocol, cast

from axonkernel.policy.profiles.grammar import Profile

__all__ = [
    "SHIPPED",
    "Profile",
    "Profiles",
    "beside_of",
    "make_profile",
    "needs_of",
    "shipped_names",
]

_FOLDER = __file__.rpartition("/")[0] + "/data"


class _Loader(Protocol):
    def get_data(self, path: str) -> bytes: ...


def _read(name: str) -> dict[str, Any]:
    """One data file of this package, wherever it is installed; importlib.resources costs more."""
    import tomllib  # many a policy asks about no program

    loader = cast(_Loader, __spec__.loader)
    return tomllib.loads(loader.get_data(f"{_FOLDER}/{name}.toml").decode())


class _Shipped:
    """The profiles that come with axonkernel, each read when it is first asked for."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._kept: dict[str, Profile] = {}

    def files(self) -> Mapping[str, str]:
        """Program name to the file its profile is in."""
        if not self._files:
            for file, names in _read("index").items():
                self._files.update(dict.fromkeys(names, file))
        return self._files

    def find(self, program: str) -> Profile | None:
        file = self.files().get(program)
        if file is None:
            return None
        if file not in self._kept:
            names = tuple(name for name, where in self.files().items() if where == file)
            self._kept[file] = Profile(file, names, _read(file))
        return self._kept[file]


_SHIPPED = _Shipped()


class Profiles:
    """Profiles by program name: those that a policy adds, then those that are shipped."""

    def __init__(self, added: Iterable[Profile] = ()) -> None:
        self._added = {name: profile for profile in added for name in profile.names}
        #: Answers by bare name; no more than there are names.
        self._kept: dict[str, Profile] = {}

    def of(self, program: str, resolved: str | None = None) -> Profile | None:
        """The profile of a program as it is spelled, or else of the file it stands for."""
        found = self._kept.get(program)
        if found is not None:
            return found
        found = self._named(program[program.rfind("/") + 1 :])
        if found is None and resolved is not None:
            found = self._named(resolved[resolved.rfind("/") + 1 :])
        return found

    def _named(self, name: str) -> Profile | None:
        """By name, then without a version: ``python3.12`` is ``python``."""
        if name not in self._added and name not in _SHIPPED.files():
            name = name.rstrip("0123456789.-")
        found = self._added.get(name) or _SHIPPED.find(name)
        if found is not None:
            self._kept[name] = found
        return found


SHIPPED = Profiles()


def shipped_names() -> Mapping[str, str]:
    """Every program name with a shipped profile, to the file that holds it."""
    return _SHIPPED.files()


def needs_of(program: str, there: Container[str] = ()) -> tuple[str, ...]:
    """The files, folders and programs that a program cannot work without, from its profile.

    Arguments:
        there: programs that are there anyway; what it can only do with one of them, such as
            git its scripts with a shell, may need more.
    """
    profile = _SHIPPED.find(program)
    if profile is None:
        return ()
    beside = (needs for other, needs in profile.beside.items() if other in there)
    return (*profile.needs, *(need for needs in beside for need in needs))


def beside_of(program: str) -> Mapping[str, tuple[str, ...]]:
    """Other programs beside which a program can do more, with what it needs for that."""
    profile = _SHIPPED.find(program)
    return {} if profile is None else profile.beside


def make_profile(data: Mapping[str, Any]) -> Profile:
    """A profile from a file without faults, for :class:`Profiles`."""
    names = tuple(data["names"])
    return Profile(names[0], names, data)
