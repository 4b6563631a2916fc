"""What confines the programs of one kernel, and what was found out for them before."""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator

from attrs import define

from axonkernel.folders import own_folders
from axonkernel.forks import forget_in_children
from axonkernel.process.boxed import dropped, environment
from axonkernel.process.lanes import Lanes
from axonkernel.process.rooms import Walls
from axonkernel.process.start import Place, Start, Terms

__all__ = ["Confiner"]

#: Terms that are kept, and seconds that the floor of one is believed to be the same.
_MOST_TERMS, _AGE_S = 64, 10.0
#: A folder that changed just before it was looked at may change again within one tick of the
#: clock that stamps it.
_TICK_NS = 20_000_000


class Confiner:
    """Confines programs where they stand. From any thread, after forks too.

    Arguments:
        inside: a box is around this process, and has taken what it takes.
    """

    def __init__(self, *, inside: bool) -> None:
        self.lanes = Lanes()
        #: Of programs that are to be ended well, and no more.
        self.guarded = Walls(loose=not inside)
        self._lock = threading.Lock()
        self._terms: OrderedDict[object, _Kept] = OrderedDict()
        forget_in_children(self)

    def forget(self) -> None:
        """In a child no other thread is in the middle of anything."""
        self._lock = threading.Lock()

    def terms(self, start: Start, place: Place) -> Terms:
        """How a program is confined.

        Raises IsolationUnavailable for what nothing can hold here, BoxError.
        """
        key = (place.policy, start.cwd, start.program, start.channel >= 0)
        with self._lock:
            kept = self._terms.get(key)
        if kept is None or not kept.is_true():
            made = (place.terms or _without_box)(start, place)
            folders = tuple(_folders(made.names))
            kept = _Kept(made, folders, time.monotonic())
            with self._lock:
                self._terms[key] = kept
                while len(self._terms) > _MOST_TERMS:
                    self._terms.popitem(last=False)
        return kept.terms

    def close(self) -> None:
        """End what waits for programs."""
        self.lanes.close()


def _without_box(start: Start, place: Place) -> Terms:
    """For a machine on which no box can be made: as much of it as a process can give up."""
    from axonkernel.box import confine, landlock
    from axonkernel.box.host import Ask
    from axonkernel.box.interpreter import interpreter_files
    from axonkernel.box.prepare import create, prepare_confined

    # The interpreter of a block is this one, which may be no whole program by itself.
    own = interpreter_files() if start.channel >= 0 else ()
    ask = Ask("call", start.cwd, start.program.name, own, state=own_folders())
    plan = prepare_confined(place.policy, ask, env=place.environ)
    create(plan)
    env, kept_out = environment(start, plan), dropped(place, plan)
    if not plan.mounts:
        return Terms(None, env, kept_out)
    paths = confine.paths(plan.mounts, ())
    tcp = plan.net is None or plan.net.open or bool(plan.net.allow)

    def rules(folder: str) -> int:
        return landlock.ruleset(paths._replace(write=(*paths.write, folder)), tcp=tcp)

    walls = Walls(rules, private=True, filter=plan.filter, run_as=plan.run_as)
    held = tuple(row.field for row in plan.posture if row.state == "enforced")
    return Terms(walls, env, kept_out, held, (*paths.read, *paths.write))


@define
class _Kept:
    """Terms, and the folders that the paths of their rules lie in."""

    terms: Terms
    folders: tuple[_Folder, ...]
    made_s: float

    def is_true(self) -> bool:
        """Whether the paths are still what they were: rules are about files, not names."""
        if time.monotonic() - self.made_s > _AGE_S:
            return False
        return all(folder.is_same() for folder in self.folders)


class _Folder:
    """A folder, and what some names in it stand for.

    While its times are the same, its names are: one look at it is enough for many paths.
    """

    def __init__(self, path: str, inner: Iterable[str]) -> None:
        self._path = path
        self._state = _state(path)
        self._names = {name: _identity(name) for name in inner}

    def is_same(self) -> bool:
        """Whether the names stand for what they did."""
        state = _state(self._path)
        if state and state == self._state:
            return True
        if any(_identity(name) != identity for name, identity in self._names.items()):
            return False
        self._state = state
        return True


def _folders(paths: Iterable[str]) -> Iterator[_Folder]:
    inner: dict[str, list[str]] = {}
    for path in paths:
        inner.setdefault(os.path.dirname(path), []).append(path)
    return (_Folder(*each) for each in inner.items())


def _state(folder: str) -> tuple[int, ...]:
    """What changes when a name in a folder comes to mean something else; () when not known."""
    try:
        found = os.stat(folder)
    except OSError:
        return ()
    if time.time_ns() - found.st_mtime_ns < _TICK_NS:
        return ()
    return found.st_dev, found.st_ino, found.st_mtime_ns


def _identity(path: str) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
