"""The exec zygote from this side: the lanes that confined programs start in."""

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
from axonkernel.box.server import Server, start_server
from axonkernel.errors import BoxError
from axonkernel.forks import forget_in_children

__all__ = ["Lane", "Zygote"]

#: Lanes that are kept for the next programs.
_MOST_FREE = 16
#: So many free lanes are not added to, when none is ready just now.
_ENOUGH = 4
#: A lane that is about to go by itself is not used.
_LEAVES_S = IDLE_S * 0.8


class Lane:
    """A guard, and the program it runs or will run (exec_lane.py). Used by one call at a time.

    Arguments:
        sock: to both.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.channel = Channel(sock)
        self._sock = sock
        self._since_s = time.monotonic()
        forget_in_children(self)

    def forget(self) -> None:
        """In a child: it is the parent's, and its guard sees only whether that lives."""
        self.channel.close()

    def is_ready(self) -> bool:
        """Whether the next program's process has been forked already."""
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(0))

    def is_fresh(self) -> bool:
        """Whether it will be there for one more order."""
        return time.monotonic() - self._since_s < _LEAVES_S

    def rest(self) -> None:
        """Note that it is free from now on."""
        self._since_s = time.monotonic()

    def end(self) -> None:
        """Have its program ended, and everything that started."""
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_WR)


class Zygote:
    """Has lanes ready, for any thread, after forks too.

    Its process is started with the first program and ends with this process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: Server | None = None
        self._free: list[Lane] = []
        forget_in_children(self)

    def forget(self) -> None:
        """Let go of the zygote of the process this one was forked from."""
        self._lock = threading.Lock()
        self.close()

    def take(self) -> Lane:
        """A lane of the caller's own. Raises BoxError when none can be had."""
        with self._lock:
            lane = self._pick()
            return self._ask() if lane is None else lane

    def give_back(self, lane: Lane) -> None:
        """Keep a lane whose program has ended, for the next one."""
        lane.rest()
        with self._lock:
            if len(self._free) < _MOST_FREE and self._server is not None:
                self._free.append(lane)
                return
        lane.channel.close()

    def tell(self, **order: Any) -> None:
        """Tell the zygote something it does not answer."""
        with self._lock, suppress(ChannelClosed):
            self._ready().channel.send(order)

    def close(self) -> None:
        """End the zygote and the lanes that are free."""
        with self._lock:
            free, self._free = self._free, []
            for lane in free:
                lane.channel.close()
            server, self._server = self._server, None
        if server is not None:
            server.close()

    def _pick(self) -> Lane | None:
        """The lane that was used last of those that are ready; None to take one more."""
        while self._free and not self._free[0].is_fresh():
            self._free.pop(0).channel.close()
        for at in reversed(range(len(self._free))):
            if self._free[at].is_ready():
                return self._free.pop(at)
        # Of many, the one that waits longest will be ready soonest.
        return self._free.pop(0) if len(self._free) >= _ENOUGH else None

    def _ask(self) -> Lane:
        for _ in range(2):  # one that was killed is replaced
            server = self._ready()
            try:
                server.channel.send({"op": "lane"})
                _, (fd,) = server.channel.receive()
                return Lane(socket.socket(fileno=fd))
            except (ChannelClosed, ValueError) as error:
                fault = error
                server.close()
                self._server = None
        raise BoxError("exec zygote", f"the exec zygote ended: {fault}")

    def _ready(self) -> Server:
        if self._server is None:
            try:
                self._server = start_server("exec_zygote")
            except OSError as error:
                raise BoxError("exec zygote", f"it cannot be started: {error}") from error
            finalize(self, self._server.close)
        return self._server
