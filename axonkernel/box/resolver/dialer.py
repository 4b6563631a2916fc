"""Connections to the company's proxy, made by a process that stays on the host's network.

The box needs no link to reach names through it, and nothing in the box reaches the proxy. The
process makes connections to the one proxy of its plan and to nothing else; it ends when the
warden and the resolver have. Standard library only.
"""

from __future__ import annotations

import array
import contextlib
import errno
import itertools
import os
import signal
import socket
import time

from axonkernel.box.linux import die_with_parent
from axonkernel.typed import Any, NoReturn

__all__ = ["Dialer", "start"]

#: For how long the addresses of a proxy are used before its name is looked up again (seconds).
_KNOWN_FOR_S = 60.0
_ORDER = b"d"


class Dialer:
    """The way to the process; connections come in the order in which they were asked for."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control

    def fileno(self) -> int:
        """Readable when there is a connection to take."""
        return self._control.fileno()

    def ask(self) -> None:
        """Ask for a connection. Raises OSError when the process is gone, or far behind."""
        self._control.send(_ORDER, socket.MSG_DONTWAIT)

    def take(self) -> socket.socket | None:
        """The next connection, which is just being made; None when the proxy has no address.
        Raises OSError when there is nothing to take any more."""
        said, ancillary, _, _ = self._control.recvmsg(
            1, socket.CMSG_SPACE(4), socket.MSG_DONTWAIT | socket.MSG_CMSG_CLOEXEC
        )
        if not said:
            raise ConnectionResetError
        for _, _, data in ancillary:
            return socket.socket(fileno=int.from_bytes(data[:4], "little"))
        return None

    def close(self) -> None:
        """Ask for nothing any more."""
        self._control.close()


def start(host: str, port: int) -> Dialer:
    """Start the process, in the network namespace of this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        _serve(theirs, host, port)
    theirs.close()
    return Dialer(ours)


def _serve(control: socket.socket, host: str, port: int) -> NoReturn:
    try:
        die_with_parent(signal.SIGKILL)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.closerange(3, control.fileno())
        os.closerange(control.fileno() + 1, os.sysconf("SC_OPEN_MAX"))
        proxy = _Proxy(host, port)
        while control.recv(1):
            made = proxy.connection()
            _hand(control, made)
            if made is not None:
                made.close()
    finally:
        os._exit(0)


def _hand(control: socket.socket, made: socket.socket | None) -> None:
    if made is not None:
        descriptor = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [made.fileno()]))
        try:
            control.sendmsg([_ORDER], [descriptor])
            return
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:  # more are on their way than a user may have
                raise
    control.send(_ORDER)


class _Proxy:
    def __init__(self, host: str, port: int) -> None:
        self._place = host, port
        self._addresses: list[tuple[Any, ...]] = []
        self._known_s = 0.0
        self._turn = itertools.count()

    def connection(self) -> socket.socket | None:
        """A connection that is being made; to the next address each time."""
        if not self._addresses or time.monotonic() > self._known_s + _KNOWN_FOR_S:
            with contextlib.suppress(OSError):  # what was known before is as good as anything
                self._addresses = socket.getaddrinfo(*self._place, type=socket.SOCK_STREAM)
                self._known_s = time.monotonic()
        for _ in self._addresses:
            family, kind, protocol, _, place = self._addresses[
                next(self._turn) % len(self._addresses)
            ]
            with contextlib.suppress(OSError):
                return _begun(family, kind, protocol, place)
        return None


def _begun(family: int, kind: int, protocol: int, place: Any) -> socket.socket:
    made = socket.socket(family, kind | socket.SOCK_NONBLOCK, protocol)
    try:
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        with contextlib.suppress(BlockingIOError):
            made.connect(place)
    except OSError:
        made.close()
        raise
    return made
