"""Listeners outside the box that must hear nothing."""

from __future__ import annotations

import contextlib
import secrets
import selectors
import socket
import threading

__all__ = ["Ears"]


class Ears:
    """A TCP and a UDP port on the host's loopback, and an abstract unix socket.

    Attributes:
        tcp, udp: the ports.
        abstract: the name of the unix socket.
        heard: what arrived, in order.
    """

    def __init__(self) -> None:
        self.abstract = f"axonkernel-demo-{secrets.token_hex(8)}"
        self.heard: list[str] = []
        self._tcp = socket.create_server(("127.0.0.1", 0))
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.bind(("127.0.0.1", 0))
        self._unix = socket.socket(socket.AF_UNIX)
        self._unix.bind(f"\0{self.abstract}")
        self._unix.listen()
        self.tcp, self.udp = self._tcp.getsockname()[1], self._udp.getsockname()[1]
        self._ending, self._end = socket.socketpair()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def try_out(self) -> None:
        """Make sure that they hear, from this side. Raises OSError when one does not."""
        for family, address in (
            (socket.AF_INET, ("127.0.0.1", self.tcp)),
            (socket.AF_UNIX, f"\0{self.abstract}"),
        ):
            with socket.socket(family) as caller:
                caller.settimeout(5)
                caller.connect(address)
                caller.recv(1)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as caller:
            caller.settimeout(5)
            caller.sendto(b"?", ("127.0.0.1", self.udp))
            caller.recv(1)
        self.heard.clear()

    def close(self) -> None:
        """Stop listening."""
        self._end.close()
        self._thread.join()
        for listener in (self._tcp, self._udp, self._unix, self._ending):
            listener.close()

    def _listen(self) -> None:
        with selectors.DefaultSelector() as ready:
            for listener in (self._tcp, self._udp, self._unix, self._ending):
                ready.register(listener, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    if key.fileobj is self._ending:
                        return
                    self._answer(key.fileobj)

    def _answer(self, listener: object) -> None:
        """Note a visitor, and say one byte."""
        if listener is self._udp:
            data, caller = self._udp.recvfrom(1000)
            self.heard.append(f"udp {data!r}")
            self._udp.sendto(b"!", caller)
            return
        server, name = (self._tcp, "tcp") if listener is self._tcp else (self._unix, "unix")
        connection, _ = server.accept()
        self.heard.append(name)  # before it is answered: whoever has the answer was heard
        with connection, contextlib.suppress(OSError):  # it may have hung up already
            connection.send(b"!")
