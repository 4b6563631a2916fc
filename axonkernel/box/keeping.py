"""What the keeper does about a change on the host, as a value (pure).

Standard library and the policy's patterns only.
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterator

from axonkernel.box.inotify import GONE, IS_FOLDER, MADE, MOVED_AWAY, OVERFLOW, Event
from axonkernel.box.model import Kept, Watch
from axonkernel.policy.globs import is_glob, path_glob, unescape
from axonkernel.typed import Literal, NamedTuple

__all__ = ["Action", "Rules"]

Verb = Literal[
    "cover",  # a kept name is something new: its mount is gone
    "hold",  # see to one kept name
    "renew",  # see to every kept name at and below this one
    "mask",  # a new name that is denied
    "look",  # a new name that may be a socket
    "enter",  # a new folder: watch it and see to what is in it
    "tell",  # a new name that something outside may run or obey
]


class Action(NamedTuple):
    """One thing to do."""

    verb: Verb
    path: str


class Rules:
    """What a :class:`Watch` says about names."""

    def __init__(self, watch: Watch) -> None:
        self.kept: dict[str, Kept] = {item.path: item for item in watch.kept}
        self.everywhere = watch.sockets or bool(watch.denied)
        self.denies_new = bool(watch.denied)
        self._sockets = watch.sockets
        self.grants = sorted(watch.grants, key=lambda grant: -len(grant[0]))
        self._denied = _Patterns(watch.denied)
        self._told = _Patterns(watch.told)
        self._ways = {folder for path in self.kept for folder in self._way_to(path)}

    def folders(self) -> list[str]:
        """The folders in which something that is kept may be replaced, outermost first."""
        written = {path for path, is_written in self.grants if is_written and self._told.any}
        return sorted(self._ways | written, key=lambda path: (path.count("/"), path))

    def on(self, event: Event) -> Iterator[Action]:
        """What to do about one event."""
        if event.mask & OVERFLOW:
            yield Action("renew", "/")
        elif event.mask & GONE:
            yield Action("renew", event.folder)
        elif event.mask & MADE:
            path = posixpath.join(event.folder, event.name)
            yield from self.on_new(path, is_folder=bool(event.mask & IS_FOLDER))
        elif event.mask & MOVED_AWAY:
            path = posixpath.join(event.folder, event.name)
            if path in self.kept and self.kept[path].stub:
                yield Action("hold", path)

    def on_new(self, path: str, *, is_folder: bool) -> Iterator[Action]:
        """What to do about a name that has come into being."""
        if path in self.kept and self.kept[path].how != "pin":
            yield Action("cover", path)
            return
        if self._denied.match(path):
            yield Action("mask", path)
            return
        if path in self._ways:
            yield Action("renew", path)
        elif self._told.match(path) and self.is_written(path):
            yield Action("tell", path)
        if is_folder and self.minds(path):
            yield Action("enter", path)
        elif self._sockets and not is_folder:
            yield Action("look", path)

    def below(self, path: str) -> list[Kept]:
        """What is kept at and below a path, outermost first."""
        top = path.rstrip("/")
        return [
            item
            for item in self.kept.values()
            if item.path == path or item.path.startswith(f"{top}/")
        ]

    def minds(self, path: str) -> bool:
        """Whether new names below a new folder matter."""
        if self.everywhere:
            return self.is_granted(path)
        return self._told.any and self.is_written(path)

    def is_written(self, path: str) -> bool:
        """Whether the box may write where a name lies."""
        return next((written for grant, written in self.grants if _in(path, grant)), False)

    def is_granted(self, path: str) -> bool:
        """Whether a name lies in a grant at all."""
        return any(_in(path, grant) for grant, _ in self.grants)

    def _way_to(self, path: str) -> Iterator[str]:
        """The folders from the outermost grant to a kept name."""
        tops = [grant for grant, _ in self.grants if _in(path, grant)]
        if not tops:
            return
        top = min(tops, key=len)
        while path != top and path != "/":
            path = posixpath.dirname(path)
            yield path


class _Patterns:
    """Path patterns, found by their last names: thousands of names are asked about."""

    def __init__(self, patterns: tuple[str, ...]) -> None:
        self.any = bool(patterns)
        self._by_name: dict[str, list[Callable[[str], bool]]] = {}
        self._others: list[Callable[[str], bool]] = []
        for pattern in patterns:
            last = posixpath.basename(pattern)
            if is_glob(last):
                self._others.append(path_glob(pattern))
            else:
                self._by_name.setdefault(unescape(last), []).append(path_glob(pattern))

    def match(self, path: str) -> bool:
        """Whether one of them is about a path."""
        named = self._by_name.get(posixpath.basename(path), ())
        return any(matches(path) for matches in (*named, *self._others))


def _in(path: str, grant: str) -> bool:
    return path == grant or path.startswith(f"{grant.rstrip('/')}/")
