"""A call while it arrives, byte by byte and from anybody. Standard library only."""

from __future__ import annotations

import array
import os
import socket
import struct

from axonkernel.box.streams import kind_of
from axonkernel.broker.wire import (
    CALL_HEADER_BYTES,
    Call,
    WireError,
    call_from,
    call_header,
)

__all__ = ["Arriving", "is_stream"]

#: One more than can be right, so that the kernel closes what comes beyond.
_SPACE = socket.CMSG_SPACE(4 * array.array("i").itemsize)
_PART_BYTES = 1 << 16
_CREDENTIALS = struct.Struct("3i")


def is_stream(descriptor: int) -> bool:
    """Whether a descriptor may be given to the box of a program: a pipe, a socket, a terminal,
    the likes of /dev/null.

    A file could be started there through /proc, although nothing that was written may be, and
    a folder leads back into the box it comes from. So shims copy files.
    """
    return kind_of(descriptor) in ("itself", "terminal")


class Arriving:
    """One connection whose call is not complete.

    Arguments:
        sock: accepted just now.
        since_s: when, on the caller's clock.

    Attributes:
        call: the call, once it is complete.
    """

    def __init__(self, sock: socket.socket, since_s: float) -> None:
        sock.setblocking(False)
        self.sock = sock
        self.since_s = since_s
        self.call: Call | None = None
        self._data = bytearray()
        self._descriptors: list[int] = []
        self._opened: tuple[int, ...] = ()

    def take(self) -> bool:
        """Take what is there; True when the call is complete.

        Raises WireError when no call can come of it, OSError when the peer has gone.
        """
        while True:
            try:
                part = self._receive()
            except BlockingIOError:
                return False
            if not part:
                raise WireError("hung up")
            self._data += part
            if self._is_complete():
                if not all(map(is_stream, self._descriptors)):
                    raise WireError("a descriptor that is no stream")
                self.call = call_from(bytes(self._data[CALL_HEADER_BYTES:]))
                self._data.clear()
                return True

    def _is_complete(self) -> bool:
        if len(self._data) < CALL_HEADER_BYTES:
            return False
        length, self._opened = call_header(bytes(self._data[:CALL_HEADER_BYTES]))
        if len(self._opened) != len(self._descriptors):
            raise WireError(f"{len(self._descriptors)} descriptors")
        missing = CALL_HEADER_BYTES + length - len(self._data)
        if missing < 0:
            raise WireError("more than a call")
        return not missing

    def _receive(self) -> bytes:
        """Up to _PART_BYTES; descriptors come with the first ones or not at all."""
        # Without space for them the kernel closes descriptors, and says that it did.
        space = 0 if self._data else _SPACE
        part, controls, flags, _ = self.sock.recvmsg(_PART_BYTES, space, socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in controls:
            if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
                found = array.array("i")
                found.frombytes(content[: len(content) // found.itemsize * found.itemsize])
                self._descriptors += found
        if flags & socket.MSG_CTRUNC:
            raise WireError("more descriptors than a call has")
        return part

    def files(self) -> tuple[int, int, int]:
        """Descriptors 0, 1 and 2 of a complete call, which are the caller's to close.

        Raises OSError when there is no descriptor left for a closed one.
        """
        while len(self._descriptors) < 3:
            missing = min({0, 1, 2} - set(self._opened))
            self._descriptors.insert(missing, os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC))
            self._opened = tuple(sorted((*self._opened, missing)))
        zero, one, two = self._descriptors
        self._descriptors = []
        return zero, one, two

    def pid(self) -> int:
        """The process that connected; 0 when it is in no pid namespace below this one."""
        data = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        return int(_CREDENTIALS.unpack(data)[0])

    def close(self) -> None:
        """Hang up; nothing came of it."""
        self.sock.close()
        for descriptor in self._descriptors:
            os.close(descriptor)
        self._descriptors = []
