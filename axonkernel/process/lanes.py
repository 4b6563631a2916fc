"""The lanes of one kernel: each with a room, whose walls its next program has taken already."""

from __future__ import annotations

import select
import socket
import threading
import time
from contextlib import suppress
from typing import Any
from weakref import finalize

from axonkernel.box.channel import Channel, ChannelClosed
from axonkernel.box.exec_lane import IDLE_S
from axonkernel.box.server import user
from axonkernel.forks import forget_in_children
from axonkernel.process import rooms
from axonkernel.process.rooms import Room, Walls
from axonkernel.process.zygote import Zygote

__all__ = ["Lane", "Lanes"]

#: Lanes that are kept for the next programs.
_MOST_FREE = 16
#: So many free lanes of one policy are not added to, when none is ready just now.
_ENOUGH = 4
#: A lane that is about to go by itself is not used.
_LEAVES_S = IDLE_S * 0.8


class Lane:
    """A guard, and the program it runs or will run (exec_lane.py). Used by one call at a time.

    Arguments:
        sock: to both.
        room: what its next program gives up.
    """

    def __init__(self, sock: socket.socket, room: Room) -> None:
        self.channel = Channel(sock)
        self.room = room
        self._sock = sock
        self._user = user()
        self._since_s = time.monotonic()
        forget_in_children(self)

    def forget(self) -> None:
        """In a child: it is the parent's, and its guard sees only whether that lives."""
        self.channel.close()
        rooms.close(self.room)

    def prepare(self) -> None:
        """Have the next program's process give up what it is to. Raises ChannelClosed."""
        walls = self.room.walls
        order = {"run_as": walls.run_as, "filter": walls.filter}
        self.channel.send(order, (self.room.rules,) if self.room.rules >= 0 else ())
        self._since_s = time.monotonic()

    def start(self, order: dict[str, Any], given: tuple[int, ...]) -> None:
        """Have it become a program. Raises ChannelClosed when it is gone; nothing ran then."""
        self.channel.send(order, given)

    def is_ready(self) -> bool:
        """Whether there is a message: when it is free, that its next process was forked."""
        return bool(self._events())

    def is_fresh(self) -> bool:
        """Whether it will be there for one more program, as the user that this process is."""
        if self._events() & select.POLLHUP:  # somebody has killed it
            return False
        return time.monotonic() - self._since_s < _LEAVES_S and self._user == user()

    def _events(self) -> int:
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return sum(events for _, events in poll.poll(0))

    def end(self) -> None:
        """Have its program ended, and everything that started."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)


class Lanes:
    """Lanes for programs, taken and given back by any thread, after forks too."""

    def __init__(self) -> None:
        self._zygote = Zygote()
        self._lock = threading.Lock()
        self._free: list[Lane] = []  # always this list
        self._closed = False
        forget_in_children(self)
        finalize(self, _let_go, self._free, self._zygote)

    def forget(self) -> None:
        """In a child: none of them is its own."""
        self._lock = threading.Lock()
        self._free.clear()

    def start(self, walls: Walls, order: dict[str, Any], given: tuple[int, ...]) -> Lane:
        """Start a program behind ``walls``; the lane that runs it.

        Arguments:
            order: ``argv``, ``file``, ``env`` and ``stays``.
            given: the working directory, the standard streams, and the program's channel.

        Raises BoxError, OSError; nothing ran then.
        """
        while True:
            lane = self._take(walls) or self._made(walls)
            folder = lane.room.folder
            own = {"TMPDIR": folder, "HOME": folder} if folder else {}
            try:
                lane.start({**order, "env": {**order["env"], **own}}, given)
                return lane
            except ChannelClosed:  # gone meanwhile: it took nothing
                self._drop(lane)
            except BaseException:
                self._drop(lane)
                raise

    def give_back(self, lane: Lane, *, reuse: bool) -> None:
        """Take back a lane whose program has ended.

        Arguments:
            reuse: False where its guard has gone, or something may still be in its room.
        """
        if reuse and rooms.empty(lane.room):
            with suppress(ChannelClosed):
                lane.prepare()
                with self._lock:
                    kept = not self._closed
                    if kept:
                        self._free.append(lane)
                    dropped = [self._free.pop(0)] if len(self._free) > _MOST_FREE else []
                for each in dropped if kept else [lane]:
                    self._drop(each)
                return
        self._drop(lane)

    def close(self) -> None:
        """End the lanes that are free, and the zygote. Programs that run go on."""
        with self._lock:
            self._closed = True
        _let_go(self._free, self._zygote)

    def _take(self, walls: Walls) -> Lane | None:
        """The free lane of these walls that was used last and is ready; None to make one."""
        with self._lock:
            old = [lane for lane in self._free if not lane.is_fresh()]
            if old:
                self._free[:] = [lane for lane in self._free if lane not in old]
            ours = [lane for lane in self._free if lane.room.walls is walls]
            ready = next((lane for lane in reversed(ours) if lane.is_ready()), None)
            # Of many, the one that waits longest will be ready soonest.
            found = ready or (ours[0] if len(ours) >= _ENOUGH else None)
            if found is not None:
                self._free.remove(found)
        for lane in old:
            self._drop(lane)
        return found

    def _made(self, walls: Walls) -> Lane:
        room = rooms.make(walls, self._zygote)
        try:
            lane = Lane(self._zygote.lane(loose=walls.loose), room)
            with suppress(ChannelClosed):  # then it is gone, which its start will tell
                lane.prepare()
            return lane
        except BaseException:
            rooms.remove(room, self._zygote)
            raise

    def _drop(self, lane: Lane) -> None:
        _drop(lane, self._zygote)


def _let_go(free: list[Lane], zygote: Zygote) -> None:
    """The end of a kernel, also of one that nobody closed."""
    while free:
        _drop(free.pop(), zygote)
    zygote.close()


def _drop(lane: Lane, zygote: Zygote) -> None:
    lane.channel.close()
    rooms.remove(lane.room, zygote)
