"""Moves bytes between a running program and memory, never more of them than agreed."""

from __future__ import annotations

import os
import selectors
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

__all__ = ["Capture", "Feed", "Stop", "drain", "over", "pump"]

Stop = Literal["end", "time", "output"]

_CHUNK_BYTES = 65536

#: For a few descriptors and a short time; not everywhere.
_Selector = getattr(selectors, "PollSelector", selectors.DefaultSelector)

#: A pipe that a left-over process holds open must not hold the call.
_DRAIN_S = 0.2


class Capture:
    """One output of a program: its first ``cap_bytes`` bytes; the rest is read and dropped."""

    def __init__(self, file: int, cap_bytes: int) -> None:
        os.set_blocking(file, False)
        self.file = file
        self.truncated = False
        self.seen_bytes = 0
        self.data = bytearray()
        self._cap_bytes = cap_bytes

    def move(self) -> bool:
        """Read once; False at the end of the stream."""
        try:
            chunk = os.read(self.file, _CHUNK_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        self.seen_bytes += len(chunk)
        room = self._cap_bytes - len(self.data)
        self.data += chunk[:room]
        self.truncated |= len(chunk) > room
        return bool(chunk)


class Feed:
    """The input of a program."""

    def __init__(self, file: int, data: bytes) -> None:
        os.set_blocking(file, False)
        self.file = file
        self._left = memoryview(data)

    def move(self) -> bool:
        """Write once; False when all is written or nobody reads."""
        try:
            self._left = self._left[os.write(self.file, self._left[:_CHUNK_BYTES]) :]
        except BlockingIOError:
            return True
        except OSError:
            return False
        return bool(self._left)


def pump(
    captures: list[Capture],
    feed: Feed | None,
    news: int,
    ended: Callable[[], bool],
    timeout_s: float | None,
    most_bytes: int | None = None,
) -> Stop:
    """Move bytes until the program has ended and its pipes are empty; closes the pipes.

    Arguments:
        news: a descriptor that is readable when there is something to ask ``ended`` for.
        ended: whether the program has ended.
        timeout_s: seconds the program may take.
        most_bytes: what all outputs together may come to; None for any amount.

    Returns what came first: its end, the time or the amount.
    """
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    with _Selector() as selector:
        selector.register(news, selectors.EVENT_READ, None)
        for capture in captures:
            selector.register(capture.file, selectors.EVENT_READ, capture)
        if feed is not None:
            selector.register(feed.file, selectors.EVENT_WRITE, feed)
        while True:
            stop = _step(selector, ended, deadline)
            if over(captures, most_bytes):
                return "output"
            if stop is not None:
                return stop


def over(captures: list[Capture], most_bytes: int | None) -> bool:
    """Whether more was written than may be."""
    return most_bytes is not None and sum(each.seen_bytes for each in captures) > most_bytes


def _step(
    selector: selectors.BaseSelector, ended: Callable[[], bool], deadline: float | None
) -> Stop | None:
    """Wait once, and move what can be moved."""
    left = None if deadline is None else deadline - time.monotonic()
    if left is not None and left <= 0:
        return "time"
    stop: Stop | None = None
    for key, _ in selector.select(left):
        if key.data is None:
            stop = "end" if ended() else stop
        else:
            _move(selector, key.data)
    return stop


def _move(selector: selectors.BaseSelector, stream: Capture | Feed) -> None:
    if not stream.move():
        selector.unregister(stream.file)
        os.close(stream.file)
        stream.file = -1


def drain(captures: list[Capture], feed: Feed | None) -> None:
    """Read what is left in the pipes of an ended program, and close them."""
    if feed is not None:
        _close(feed)
    if all(capture.file < 0 for capture in captures):
        return
    deadline = time.monotonic() + _DRAIN_S
    with _Selector() as selector:
        for capture in captures:
            if capture.file >= 0:
                selector.register(capture.file, selectors.EVENT_READ, capture)
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                _move(selector, key.data)
    for capture in captures:
        _close(capture)


def _close(stream: Capture | Feed) -> None:
    if stream.file >= 0:
        with suppress(OSError):
            os.close(stream.file)
        stream.file = -1
