"""A broker's listener, and peers that speak to it by hand.

::

    door = Door(tmp_path / "socket", lambda incoming: Ended(7))
    with door.connect() as sock:
        send(sock, [(CALL, 3)])
"""

from __future__ import annotations

import fcntl
import os
import socket
import struct
import termios
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from axonkernel.broker import client, wire
from axonkernel.broker.listener import Incoming, Listener
from axonkernel.broker.wire import Call, Ended, Refused
from box.shimmed import WAITS_S

__all__ = ["CALL", "NONE", "Door", "Parts", "send"]

NONE = (-1, -1, -1)
NULL = (os.devnull, os.O_RDWR)

CALL = wire.call_bytes(Call(("by", "hand"), "/", {"A": "1"}), (0, 1, 2))
#: What is sent, in parts, each with so many descriptors of /dev/null, or three of something else.
Parts = Sequence[tuple[bytes, int | tuple[str, int]]]


class Door:
    """A listener, and what it was asked."""

    def __init__(self, place: Path, answer: Callable[[Incoming], Refused | Ended]) -> None:
        self.place = place
        self.calls: list[tuple[str, ...]] = []
        self.answer = answer
        self.listener = Listener(place, self._answer)

    def _answer(self, incoming: Incoming) -> Refused | Ended:
        self.calls.append(incoming.argv)
        return self.answer(incoming)

    def connect(self) -> socket.socket:
        """A connection of somebody."""
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(WAITS_S)
        sock.connect(str(self.place))
        return sock

    def honest(self, *words: str) -> Refused | Ended | None:
        """The outcome of a call as it should be."""
        with client.call(words, "/", {}, NONE, place=str(self.place)) as calling:
            return calling.wait(WAITS_S)


def send(sock: socket.socket, parts: Parts) -> None:
    """Send what a peer might."""
    for data, what in parts:
        (path, flags), count = (
            ((os.devnull, os.O_RDWR), what) if isinstance(what, int) else (what, 3)
        )
        descriptor = os.open(path, flags)
        try:
            given = [descriptor] * count
            sent = socket.send_fds(sock, [data], given) if given else sock.send(data)
            if sent < len(data):
                sock.sendall(data[sent:])
            while unread(sock):  # so that it arrives in the same parts
                time.sleep(0.001)
        except OSError:  # hung up on, as it should be
            return
        finally:
            os.close(descriptor)


def unread(sock: socket.socket) -> int:
    """Bytes that the other side has not taken yet."""
    return struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0]
