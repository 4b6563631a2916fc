"""Services of the host that must hear nothing from the box."""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import socket
import threading

__all__ = ["Listeners"]


class Listeners:
    """One thread that notes whatever is said to it, and answers with one byte.

    Arguments:
        name: a word of this stage's own, for abstract sockets.
        paths: where to bind unix sockets.

    Attributes:
        heard: what was said, in order.
        tcp, tcp6, udp: ports on the loopback; 0 for IPv6 where this machine has none.
        address: another address of this machine, listened to at the same ports; "" for none.
        connected: one end of a connected pair, whose other end is listened to.
    """

    def __init__(self, name: str, paths: list[str]) -> None:
        self.heard: list[str] = []
        self._sockets: list[socket.socket] = []
        self.tcp = self._port(socket.SOCK_STREAM, "127.0.0.1")
        self.udp = self._port(socket.SOCK_DGRAM, "127.0.0.1")
        self.tcp6 = 0
        with contextlib.suppress(OSError):
            self.tcp6 = self._port(socket.SOCK_STREAM, "::1")
        self.address = ""
        with contextlib.suppress(OSError):
            own = _own_address()
            self._port(socket.SOCK_STREAM, own, self.tcp)
            self._port(socket.SOCK_DGRAM, own, self.udp)
            self.address = own
        self.abstract, self.abstract_datagram = f"{name}-stream", f"{name}-datagram"
        self._bound(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{self.abstract}")
        self._bound(socket.AF_UNIX, socket.SOCK_DGRAM, f"\0{self.abstract_datagram}")
        for path in paths:
            self._bound(socket.AF_UNIX, socket.SOCK_STREAM, path)
            os.chmod(path, 0o777)
        self.connected, listened = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._sockets.append(listened)
        self._ending, self._end = socket.socketpair()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def words(self) -> set[str]:
        """Everything that was said, word by word."""
        return {word for said in list(self.heard) for word in re.findall("[a-z0-9-]+", said)}

    def close(self) -> None:
        """Stop listening."""
        self._end.close()
        self._thread.join()
        for each in (*self._sockets, self.connected, self._ending):
            each.close()

    def _port(self, kind: int, address: str, port: int = 0) -> int:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        return int(self._bound(family, kind, (address, port)).getsockname()[1])

    def _bound(self, family: int, kind: int, address: tuple[str, int] | str) -> socket.socket:
        server = socket.socket(family, kind)
        server.bind(address)
        if kind == socket.SOCK_STREAM:
            server.listen()
        self._sockets.append(server)
        return server

    def _listen(self) -> None:
        with selectors.DefaultSelector() as ready:
            for each in (*self._sockets, self._ending):
                ready.register(each, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    if key.fileobj is self._ending:
                        return
                    assert isinstance(key.fileobj, socket.socket)
                    with contextlib.suppress(OSError):
                        self._note(key.fileobj)

    def _note(self, server: socket.socket) -> None:
        if server.type == socket.SOCK_DGRAM:
            data, caller = server.recvfrom(1000)
            self.heard.append(data.decode("latin-1"))
            if server.family == socket.AF_INET:
                server.sendto(b"!", caller)
            return
        connection, _ = server.accept()
        with connection:
            connection.settimeout(2)
            self.heard.append(connection.recv(1000).decode("latin-1") or "a visitor")
            connection.send(b"!")


def _own_address() -> str:
    """The address this machine has in its network. (Nothing is sent to find out.)"""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        any_socket.connect(("192.0.2.1", 9))
        return str(any_socket.getsockname()[0])
