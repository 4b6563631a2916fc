"""One thread that waits for many descriptors, and for moments in time. Standard library only."""

from __future__ import annotations

import heapq
import itertools
import select
import time
from collections.abc import Callable

__all__ = ["Loop", "Timer"]

Call = Callable[[], object]


class Timer:
    """Something that will be called."""

    def __init__(self, call: Call, period_s: float = 0.0) -> None:
        self.call: Call | None = call
        self.period_s = period_s

    def cancel(self) -> None:
        """Not be called any more."""
        self.call = None


class Loop:
    """Calls what was asked for when a descriptor can be read, or a time has come.

    Calls come one after the other and must not wait. An exception ends :meth:`run`.
    """

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._readers: dict[int, Call] = {}
        self._timers: list[tuple[float, int, Timer]] = []
        self._order = itertools.count()
        self._runs = False

    def add(self, fd: int, on_readable: Call, events: int = select.EPOLLIN) -> None:
        """Call ``on_readable`` whenever ``fd`` can be read (or what ``events`` says), and when
        its other end is gone. Raises OSError, and FileExistsError when it was added before."""
        self._epoll.register(fd, events)
        self._readers[fd] = on_readable

    def remove(self, fd: int) -> None:
        """Forget ``fd``; before it is closed."""
        if self._readers.pop(fd, None) is not None:
            self._epoll.unregister(fd)

    def after(self, seconds: float, call: Call) -> Timer:
        """Call once, after ``seconds``."""
        return self._put(Timer(call), seconds)

    def every(self, seconds: float, call: Call) -> Timer:
        """Call again and again, each time ``seconds`` after the last."""
        return self._put(Timer(call, seconds), seconds)

    def run(self) -> None:
        """Until :meth:`stop`."""
        self._runs = True
        while self._runs:
            self._turn()

    def stop(self) -> None:
        """End :meth:`run`, after what is being called."""
        self._runs = False

    def _put(self, timer: Timer, seconds: float) -> Timer:
        heapq.heappush(self._timers, (time.monotonic() + seconds, next(self._order), timer))
        return timer

    def _turn(self) -> None:
        for fd, _ in self._epoll.poll(self._patience_s()):
            # What is called may have removed one that is ready as well.
            if (call := self._readers.get(fd)) is not None:
                call()
        now_s = time.monotonic()
        while self._timers and self._timers[0][0] <= now_s:
            self._fire(heapq.heappop(self._timers)[2])

    def _fire(self, timer: Timer) -> None:
        if timer.call is not None:
            timer.call()
        if timer.call is not None and timer.period_s:
            self._put(timer, timer.period_s)

    def _patience_s(self) -> float:
        while self._timers and self._timers[0][2].call is None:
            heapq.heappop(self._timers)
        if not self._timers:
            return -1.0
        return max(0.0, self._timers[0][0] - time.monotonic())
