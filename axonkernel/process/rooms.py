"""Rooms for confined programs: what they give up, with a private folder that is left to them.

The rules of a policy are built once, each time with another folder in them that stands for
/tmp and HOME; a folder that a program left as it was is given to the next one of that policy.
"""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator

from attrs import define, frozen

from axonkernel.box import landlock
from axonkernel.forks import forget_in_children
from axonkernel.process.zygote import Zygote

__all__ = ["Room", "Rooms", "Walls"]

#: Policies whose rooms are kept, and free rooms of each.
_MOST_WALLS, _MOST_FREE = 32, 16


@frozen(eq=False)
class Walls:
    """What a program gives up. The same for all that share rooms.

    Arguments:
        paths: what stays in reach.
        tcp: False closes TCP.
        filter: the seccomp filter, raw BPF in base64; "" for none.
        run_as: (uid, gid) to become; None keeps this process's own.
    """

    paths: landlock.Paths
    tcp: bool
    filter: str
    run_as: tuple[int, int] | None


@define
class Room:
    """Rules, and a private folder in them.

    Arguments:
        rules: a descriptor (landlock.ruleset).
        folder: empty until a program is in the room.
    """

    walls: Walls
    rules: int
    folder: str


class Rooms:
    """The rooms of one kernel.

    Arguments:
        zygote: removes the folders of a kernel that was killed.
    """

    def __init__(self, zygote: Zygote) -> None:
        self._zygote = zygote
        self._lock = threading.Lock()
        self._free: OrderedDict[Walls, list[Room]] = OrderedDict()
        forget_in_children(self)

    def forget(self) -> None:
        """The folders are those of the process this one was forked from."""
        self._lock = threading.Lock()
        for room in self._take_all():
            os.close(room.rules)

    def enter(self, walls: Walls) -> Room:
        """A room that nobody else is in. Raises OSError where there is no Landlock."""
        with self._lock:
            free = self._free.get(walls)
            if free:
                return free.pop()
        return self._make(walls)

    def leave(self, room: Room, *, reuse: bool) -> None:
        """Give a room back; emptied, it is the next program's.

        Arguments:
            reuse: False where something may still be in it.
        """
        if not (reuse and _emptied(room.folder) and self._keep(room)):
            self._remove(room)

    def close(self) -> None:
        """Remove all that are free."""
        for room in self._take_all():
            self._remove(room)

    def _keep(self, room: Room) -> bool:
        dropped: list[Room] = []
        with self._lock:
            rooms = self._free.setdefault(room.walls, [])
            self._free.move_to_end(room.walls)
            if len(rooms) >= _MOST_FREE:
                return False
            rooms.append(room)
            while len(self._free) > _MOST_WALLS:
                dropped += self._free.popitem(last=False)[1]
        for each in dropped:
            self._remove(each)
        return True

    def _take_all(self) -> Iterator[Room]:
        with self._lock:
            free, self._free = self._free, OrderedDict()
        return (room for rooms in free.values() for room in rooms)

    def _make(self, walls: Walls) -> Room:
        folder = tempfile.mkdtemp(prefix="axonkernel-")
        try:
            self._zygote.tell(op="made", folder=folder)
            if walls.run_as is not None:
                os.chown(folder, *walls.run_as)
            within = walls.paths._replace(write=(*walls.paths.write, folder))
            return Room(walls, landlock.ruleset(within, tcp=walls.tcp), folder)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    def _remove(self, room: Room) -> None:
        os.close(room.rules)
        shutil.rmtree(room.folder, ignore_errors=True)
        self._zygote.tell(op="gone", folder=room.folder)


def _emptied(folder: str) -> bool:
    """Take away what a program left in its folder; whether it is as new then."""
    try:
        with os.scandir(folder) as entries:
            left = list(entries)
        for entry in left:
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(entry.path)
            else:
                os.unlink(entry.path)
        found = os.stat(folder, follow_symlinks=False)
        return stat.S_IMODE(found.st_mode) == 0o700 and not os.listxattr(folder)
    except OSError:
        return False
