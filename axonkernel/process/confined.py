"""A program beside this process, with a guard that ends all it started.

With all given up that a process can give up, where no box can be made (best-effort) and for what
a narrowed request starts inside a box.
"""

from __future__ import annotations

import os
import threading
import time
from typing import Any

from axonkernel.box.channel import ChannelClosed
from axonkernel.errors import BoxError, ToolError
from axonkernel.process.confiner import Confiner
from axonkernel.process.lanes import Lane, Lanes
from axonkernel.process.plain import environment_of, start_plain
from axonkernel.process.result import Usage
from axonkernel.process.start import Ending, Place, Running, Start, Terms

__all__ = ["start_confined"]


def start_confined(start: Start, place: Place, stdin: int, stdout: int, stderr: int) -> Running:
    """Start ``start`` with a guard, and confined where the place says so and the kernel can.

    Raises OSError when the working directory cannot be entered, BoxError when it cannot be
    confined; nothing ran then.
    """
    streams = (stdin, stdout, stderr)
    confiner: Confiner = place.confiner
    if place.confined:
        terms = confiner.terms(start, place)
        if terms.walls is not None:
            return _started(start, place, terms, streams)
    if start.stays:
        return start_plain(start, place, *streams)
    env, kept_out = environment_of(start, place)
    terms = Terms(confiner.guarded, tuple(env.items()), kept_out)
    return _started(start, place, terms, streams)


def _started(start: Start, place: Place, terms: Terms, streams: tuple[int, int, int]) -> _Confined:
    lanes: Lanes = place.confiner.lanes
    env = start.wanted({**dict(terms.env), **start.env})
    argv = (start.program.name, *start.argv[1:])
    order = {"argv": argv, "file": start.program.file, "env": env, "stays": start.stays}
    channel = (start.channel,) if start.channel >= 0 else ()
    cwd = os.open(start.cwd, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        lane = lanes.start(terms.walls, order, (cwd, *streams, *channel))
    finally:
        os.close(cwd)
    names: tuple[str, ...] = ("box",) if place.around else ()
    names += ("landlock",) if terms.walls.rules is not None else ()
    held = (*terms.held_by, *(each for each in place.around if each not in terms.held_by))
    return _Confined(lanes, lane, start.stays, held, names, terms.env_dropped)


class _Confined:
    """A confined program. See :class:`axonkernel.process.start.Running`."""

    def __init__(
        self,
        lanes: Lanes,
        lane: Lane,
        stays: bool,
        held_by: tuple[str, ...],
        walls: tuple[str, ...],
        env_dropped: tuple[str, ...],
    ) -> None:
        self.held_by = held_by
        self.walls = walls
        self.env_dropped = env_dropped
        self._lanes = lanes
        self._lane = lane
        self._stays = stays
        self._since_s = time.monotonic()
        self._pid = 0
        self._ending: dict[str, Any] | None = None
        self._lock = threading.Lock()  # for those who take messages

    @property
    def pid(self) -> int:
        """The program, in the pid namespace of this process."""
        with self._lock:
            if not self._pid and self._ending is None:
                self._take()
        return self._pid

    def fileno(self) -> int:
        """Readable when there is news for :meth:`ended`."""
        return self._lane.channel.fileno()

    def ended(self) -> bool:
        """Whether it has ended, and all it started that may not stay."""
        with self._lock:
            while self._ending is None and self._lane.is_ready():
                self._take()
        return self._ending is not None

    def wait(self) -> None:
        """Block until it has ended, and all it started that may not stay."""
        with self._lock:
            while self._ending is None:
                self._take()

    def end(self) -> Ending:
        """How it ended. Raises BoxError when it was not confined and so did not run, ToolError
        when nobody can say how it ended."""
        self.wait()
        told = self._ending
        assert told is not None
        whole = not (told["killed"] or told["fault"] or (self._stays and told["left"]))
        self._lanes.give_back(self._lane, reuse=whole)
        if told["fault"]:
            raise BoxError("exec zygote", told["fault"])
        code = told["code"]
        if code is None:
            raise ToolError("process", "its guard was killed, and the program with it")
        reason = "killed" if told["killed"] else "exit"
        used = Usage(reason, time.monotonic() - self._since_s, told["cpu_s"])
        background = told["left"] and not self._stays
        return Ending(code if code >= 0 else 128 - code, background=background, used=used)

    def kill(self) -> None:
        """End it and everything it started, by its guard."""
        if self._ending is None:
            self._lane.end()

    def _take(self) -> None:
        """One message from the guard."""
        try:
            message, _ = self._lane.channel.receive()
        except ChannelClosed:
            message = {"fault": "", "left": True, "killed": True, "code": None}
        if "pid" in message:
            self._pid = message["pid"]
        else:
            self._ending = message
