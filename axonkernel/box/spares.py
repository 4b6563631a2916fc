"""Processes forked ahead of need: as many as the last bursts asked for, and few when idle.

A fork takes a millisecond, and fifty calls at once would wait for one another's. What takes
spares forks more only while nobody waits. Standard library only.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from axonkernel.box.channel import Channel

__all__ = ["Spares"]

#: What was not needed for so long is let go.
_PERIOD_S = 5.0


class _Spare(Protocol):
    def close(self) -> None: ...


_Some = TypeVar("_Some", bound=_Spare)


class Spares(Generic[_Some]):
    """A pool of waiting processes, which end when they are closed.

    Arguments:
        fork: makes one.
        most: how many may wait at one time.
        ready: those that wait already.
        clock: monotonic seconds.
    """

    def __init__(
        self,
        fork: Callable[[], _Some],
        *,
        most: int,
        ready: Iterable[_Some] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._fork = fork
        self._most = most
        self._clock = clock
        self._ready = deque(ready)
        self._wanted = 1
        self._lowest = 0  # of what was ready during this period
        self._until_s = clock() + _PERIOD_S

    def __len__(self) -> int:
        return len(self._ready)

    def take(self) -> _Some:
        """One of them; made now when none waits, and then more are kept from now on."""
        if self._ready:
            spare = self._ready.popleft()
        else:
            self._wanted = min(self._wanted + 1, self._most)
            spare = self._fork()
        self._lowest = min(self._lowest, len(self._ready))
        return spare

    def await_request(self, requests: Channel) -> None:
        """Return when ``requests`` can be read; meanwhile make more, and let go of some."""
        poll = select.poll()
        poll.register(requests, select.POLLIN)
        while not poll.poll(self._until_work_ms()):
            if len(self._ready) < self._wanted:
                self._ready.append(self._fork())
            self._review()

    def _until_work_ms(self) -> float | None:
        """Milliseconds until there is something to do; None for never."""
        if len(self._ready) < self._wanted:
            return 0
        if self._wanted == 1:
            return None
        return max(0.0, self._until_s - self._clock()) * 1000 + 1

    def _review(self) -> None:
        """At the end of a period, let go of as many as never were taken in it."""
        if self._clock() < self._until_s:
            return
        surplus = min(self._lowest, len(self._ready) - 1)
        for _ in range(surplus):
            self._ready.pop().close()
        self._wanted = max(1, self._wanted - max(0, surplus))
        self._lowest = len(self._ready)
        self._until_s = self._clock() + _PERIOD_S
