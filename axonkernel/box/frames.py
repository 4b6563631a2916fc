"""Frames between a kernel and its workers: a kind, a length, bytes; standard library only.

A reader never blocks in the middle of a frame: what sends it is not trusted to finish one.
"""

from __future__ import annotations

import socket
import struct

__all__ = [
    "ASK",
    "ERROR",
    "ORDER",
    "REPLY",
    "RESULT",
    "UNCONFINED",
    "FrameFault",
    "Frames",
    "send",
]

#: Kinds: the request; a call that the worker wants, and its answer; what came of the request.
ORDER, ASK, REPLY, RESULT, ERROR, UNCONFINED = range(1, 7)

_HEADER = struct.Struct("!BQ")


class FrameFault(Exception):
    """The peer sent what is no frame, or one that is too long."""


def send(sock: socket.socket, kind: int, body: bytes) -> None:
    """Send one frame, blocking. Raises OSError when the peer is gone."""
    head = _HEADER.pack(kind, len(body))
    if len(body) < 65536:
        sock.sendall(head + body)
        return
    sock.sendall(head)
    sock.sendall(body)


class Frames:
    """Reads frames from a socket as they come.

    Arguments:
        most_bytes: a longer frame is a fault.
    """

    def __init__(self, sock: socket.socket, most_bytes: int) -> None:
        self._sock = sock
        self._most_bytes = most_bytes
        self._kind = 0
        self._head = True
        self._body = bytearray(_HEADER.size)
        self._have = 0

    def receive(self) -> tuple[int, bytearray]:
        """The next frame, blocking. Raises EOFError at the end, FrameFault, OSError."""
        while (found := self.step(socket.MSG_WAITALL)) is None:
            pass
        return found

    def step(self, flags: int = socket.MSG_DONTWAIT) -> tuple[int, bytearray] | None:
        """Read once; a frame that is complete now, or None.

        Raises EOFError when the peer has closed, FrameFault for what is no frame.
        """
        if self._have < len(self._body):
            try:
                count = self._sock.recv_into(memoryview(self._body)[self._have :], 0, flags)
            except (BlockingIOError, InterruptedError):
                return None
            if count == 0:
                raise EOFError
            self._have += count
        if self._have < len(self._body):
            return None
        body, self._have, head = self._body, 0, self._head
        self._head = not head
        if not head:
            self._body = bytearray(_HEADER.size)
            return self._kind, body
        self._kind, length = _HEADER.unpack(body)
        if length > self._most_bytes:
            raise FrameFault(f"a frame of {length} bytes; {self._most_bytes} may be sent")
        self._body = bytearray(length)
        return self.step(flags) if length == 0 else None
