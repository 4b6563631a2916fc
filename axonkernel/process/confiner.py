"""What confines the programs of one kernel, and the plans that were made for them before."""

from __future__ import annotations

import os
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import suppress

from attrs import define, evolve

from axonkernel.box.model import BoxPlan
from axonkernel.folders import own_folders
from axonkernel.policy.model import Policy
from axonkernel.process.lanes import Lanes
from axonkernel.process.rooms import Walls
from axonkernel.process.start import Place, Start

__all__ = ["Confiner"]

#: Plans that are kept, and seconds that the floor of one is believed to be the same.
_MOST_PLANS, _AGE_S = 64, 10.0
#: A folder that changed just before it was looked at may change again within one tick of the
#: clock that stamps it.
_TICK_NS = 20_000_000


class Confiner:
    """Confines programs where they stand. From any thread, after forks too.

    Arguments:
        around: what the box around this process holds; None outside one.
        private: paths that this box has of its own to write.
    """

    def __init__(self, around: Policy | None = None, private: tuple[str, ...] = ()) -> None:
        self.lanes = Lanes()
        #: Of programs that are to be ended well, and no more. A box around has taken the rest.
        self.guarded = Walls(loose=around is None)
        self._around = around
        self._private = private
        self._plans: OrderedDict[object, _Kept] = OrderedDict()

    def plan(self, start: Start, place: Place) -> tuple[BoxPlan, Walls | None]:
        """The plan for a program, and what it gives up; None where nothing can be."""
        key = (place.policy, start.cwd, start.program, start.channel >= 0)
        kept = self._plans.get(key)
        if kept is None or not kept.is_true():
            kept = self._make(start, place)
            self._plans[key] = kept
            while len(self._plans) > _MOST_PLANS:
                with suppress(KeyError):  # another thread did it
                    self._plans.popitem(last=False)
        return kept.plan, kept.walls

    def close(self) -> None:
        """End what waits for programs."""
        self.lanes.close()

    def _make(self, start: Start, place: Place) -> _Kept:
        from axonkernel.box import confine
        from axonkernel.box.host import Ask
        from axonkernel.box.interpreter import interpreter_files
        from axonkernel.box.prepare import create, prepare_confined

        # The interpreter of a block is this one, which may be no whole program by itself.
        own = interpreter_files() if start.channel >= 0 else ()
        ask = Ask("call", start.cwd, start.program.name, own, state=own_folders())
        policy, around = place.policy, self._around
        if around is not None and policy.net == around.net:
            policy = evolve(policy, net=None)  # no narrower: the box holds it, its loopback stays
        plan = prepare_confined(policy, ask, env=place.environ)
        create(plan)
        if not plan.mounts:
            return _Kept(plan, None, (), time.monotonic())
        # Who narrows no files keeps what the box around has of its own.
        private = self._private if around is not None and policy.fs == around.fs else ()
        paths = confine.paths(plan.mounts, private)
        folders = tuple(_folders((*paths.read, *paths.write)))
        tcp = plan.net is None or plan.net.open or bool(plan.net.allow)
        walls = Walls(paths, tcp, plan.filter, plan.run_as)
        return _Kept(plan, walls, folders, time.monotonic())


@define
class _Kept:
    """A plan, what it comes to, and the folders that its paths lie in."""

    plan: BoxPlan
    walls: Walls | None
    folders: tuple[_Folder, ...]
    made_s: float

    def is_true(self) -> bool:
        """Whether its paths are still what they were: rules are about files, not names."""
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
