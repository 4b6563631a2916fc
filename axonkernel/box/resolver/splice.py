"""Bytes from one socket to another through a pipe, without a copy in this process.

Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket

__all__ = ["Flow", "Pipes"]

_PIPE_BYTES = 256 * 1024
#: Of every flow in its turn: others wait meanwhile.
_TURN_BYTES = 1024 * 1024
#: Pipes kept for the next flow. Few flows have bytes on their way at any one time.
_KEPT = 32
_NOW = os.SPLICE_F_NONBLOCK | os.SPLICE_F_MOVE


class Pipes:
    """Empty pipes: a flow has one only while it holds bytes."""

    def __init__(self) -> None:
        self._free: list[tuple[int, int]] = []

    def take(self) -> tuple[int, int]:
        """An empty pipe. Raises OSError where no descriptor is left."""
        if self._free:
            return self._free.pop()
        read, write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        with contextlib.suppress(OSError):  # a user's pipes may only be so large together
            fcntl.fcntl(write, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
        return read, write

    def give(self, pipe: tuple[int, int], *, empty: bool) -> None:
        """Take a pipe back; bytes that nobody wants any more go with it."""
        if empty and len(self._free) < _KEPT:
            self._free.append(pipe)
            return
        for fd in pipe:
            os.close(fd)

    def close(self) -> None:
        """Close what is kept."""
        for pipe in self._free:
            self.give(pipe, empty=False)
        self._free.clear()


class Flow:
    """One direction of a connection.

    Arguments:
        source, target: sockets that do not block.
        first: what goes before the bytes of ``source``.
    """

    def __init__(
        self, source: socket.socket, target: socket.socket, pipes: Pipes, first: bytes = b""
    ) -> None:
        self._source = source
        self._target = target
        self._pipes = pipes
        self._pipe: tuple[int, int] | None = None
        self._first = first
        self._held = 0
        #: The source has said its last byte.
        self.ended = False
        #: Everything has arrived, and the target knows that no more comes.
        self.done = False

    @property
    def blocked(self) -> bool:
        """Whether it waits for room at the target, not for bytes from the source."""
        return self._held > 0

    def move(self) -> None:
        """Move what can be moved now. Raises OSError when one side is gone."""
        if self.done:
            return
        moved = 0
        while moved < _TURN_BYTES and (self._held or self._take()):
            if not (count := self._give()):
                break
            moved += count
        if self._held:
            return
        self._release()
        if self.ended:
            self._target.shutdown(socket.SHUT_WR)
            self.done = True

    def drop(self) -> None:
        """Forget what is on its way."""
        self._first = b""
        self._release()

    def _take(self) -> bool:
        """Fill the pipe, which is empty; False when there is nothing."""
        if self.ended:
            return False
        self._pipe = self._pipe or self._pipes.take()
        with contextlib.suppress(BlockingIOError):
            if self._first:
                self._held = os.write(self._pipe[1], self._first)
                self._first = self._first[self._held :]
            else:
                self._held = os.splice(
                    self._source.fileno(), self._pipe[1], _PIPE_BYTES, flags=_NOW
                )
                self.ended = not self._held
        return bool(self._held)

    def _give(self) -> int:
        """Empty the pipe as far as the target takes it."""
        assert self._pipe
        try:
            count = os.splice(self._pipe[0], self._target.fileno(), self._held, flags=_NOW)
        except BlockingIOError:
            return 0
        self._held -= count
        return count

    def _release(self) -> None:
        if self._pipe is not None:
            self._pipes.give(self._pipe, empty=not self._held)
            self._pipe = None
            self._held = 0
