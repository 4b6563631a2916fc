"""The exec zygote from this side: the process that has new lanes ready."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from weakref import finalize

from axonkernel.box.channel import ChannelClosed
from axonkernel.box.server import Server, start_server
from axonkernel.errors import BoxError
from axonkernel.forks import forget_in_children

__all__ = ["Zygote"]


class Zygote:
    """Gives new lanes, to any thread, after forks too.

    Its process is started at the first use and ends with this process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._server: Server | None = None
        forget_in_children(self)

    def forget(self) -> None:
        """Let go of the zygote of the process this one was forked from."""
        self._lock = threading.Lock()
        self.close()

    def lane(self, *, loose: bool) -> socket.socket:
        """The caller's end of a new lane (exec_lane.py). Raises BoxError."""
        with self._lock:
            for _ in range(2):  # one that was killed is replaced
                server = self._ready()
                try:
                    server.channel.send({"op": "lane", "loose": loose})
                    _, (fd,) = server.channel.receive()
                    return socket.socket(fileno=fd)
                except (ChannelClosed, ValueError) as error:
                    fault = error
                    server.close()
                    self._server = None
        raise BoxError("exec zygote", f"the exec zygote ended: {fault}")

    def made(self, folder: str) -> None:
        """Have a folder removed should this process be killed. Raises BoxError."""
        with self._lock, suppress(ChannelClosed):
            self._ready().channel.send({"op": "made", "folder": folder})

    def gone(self, folder: str) -> None:
        """A folder has been removed."""
        with self._lock, suppress(ChannelClosed):
            if self._server is not None:
                self._server.channel.send({"op": "gone", "folder": folder})

    def close(self) -> None:
        """End the zygote's process. Lanes that were taken are their owners'."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            server.close()

    def _ready(self) -> Server:
        if self._server is not None and not self._server.is_current:
            self._server.close()
            self._server = None
        if self._server is None:
            try:
                self._server = start_server("exec_zygote")
            except OSError as error:
                raise BoxError("exec zygote", f"it cannot be started: {error}") from error
            finalize(self, self._server.close)
        return self._server
