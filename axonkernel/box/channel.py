"""Messages over a unix stream socket: four bytes of length, then JSON; descriptors beside.

Standard library only. Both ends are ours, or (the agent's session) one end is the agent's:
then every message is data to be checked, and a frame over the cap ends the channel.
"""

from __future__ import annotations

# Not socket, which turns every constant into an enum: 2 ms of each launch.
import _socket
import array
import json
import struct

from axonkernel.typed import Any

__all__ = ["MAX_FOREIGN_BYTES", "MAX_FRAME_BYTES", "Channel", "ChannelClosed", "pair"]

#: Larger than any plan or result; a peer that announces more is not one of ours.
MAX_FRAME_BYTES = 64 * 1024 * 1024
#: The same for a peer that is the agent: JSON takes up to thirty times its size once read.
MAX_FOREIGN_BYTES = 8 * 1024 * 1024

_LENGTH = struct.Struct("!I")
_MAX_DESCRIPTORS = 8
_INT_BYTES = array.array("i").itemsize


class ChannelClosed(Exception):
    """The peer ended, or broke the framing."""


class Channel:
    """One end of a message channel. Not thread-safe: one reader, one writer at a time."""

    def __init__(self, sock: _socket.socket) -> None:
        self._sock = sock
        self._descriptors: list[int] = []
        self._foreign = False

    def distrust(self) -> None:
        """From now on the peer is the agent: no descriptor of its is taken, and a frame over
        MAX_FOREIGN_BYTES ends the channel."""
        self._foreign = True

    def fileno(self) -> int:
        """The socket's descriptor, for poll()."""
        return self._sock.fileno()

    def detach(self) -> int:
        """Give up the socket and return its descriptor."""
        return self._sock.detach()

    def close(self) -> None:
        """Close this end; the peer sees ChannelClosed."""
        self._sock.close()

    def send(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        """Send one message; the peer gets duplicates of ``descriptors``.

        Raises ChannelClosed when the peer is gone, ValueError when the message is over
        MAX_FRAME_BYTES.
        """
        # As UTF-8: escapes would make a request of emoji twelve times as large.
        text = json.dumps(message, separators=(",", ":"), ensure_ascii=False)
        body = text.encode("utf-8", "surrogatepass")
        if len(body) > MAX_FRAME_BYTES:
            raise ValueError(f"message of {len(body)} bytes is over {MAX_FRAME_BYTES}")
        frame = _LENGTH.pack(len(body)) + body
        try:
            # Descriptors ride on the first byte; a stream may take the frame in parts.
            lent = (_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", descriptors))
            sent = self._sock.sendmsg([frame], [lent] if descriptors else [])
            # Sending nothing fails where the peer has read the message and closed already.
            if sent < len(frame):
                self._sock.sendall(memoryview(frame)[sent:])
        except OSError as error:
            raise ChannelClosed(str(error)) from error

    def receive(self) -> tuple[dict[str, Any], tuple[int, ...]]:
        """The next message and the descriptors that came with it.

        Raises ChannelClosed at the end of the stream or on anything that is not a message.
        """
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        if length > (MAX_FOREIGN_BYTES if self._foreign else MAX_FRAME_BYTES):
            raise ChannelClosed(f"frame of {length} bytes")
        try:
            message = json.loads(self._read(length))
        except (ValueError, RecursionError) as error:
            raise ChannelClosed(f"not JSON: {error}") from error
        if not isinstance(message, dict):
            raise ChannelClosed("not a JSON object")
        descriptors, self._descriptors = tuple(self._descriptors), []
        return message, descriptors

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            wanted = min(size - len(parts), 1 << 20)
            try:
                data = self._some(wanted)
            except OSError as error:
                raise ChannelClosed(str(error)) from error
            if not data:
                raise ChannelClosed("end of stream")
            parts += data
        return bytes(parts)

    def _some(self, size: int) -> bytes:
        """Up to ``size`` bytes; descriptors that come with them are kept."""
        if self._foreign:
            return self._sock.recv(size)  # the kernel drops the descriptors
        space = _socket.CMSG_SPACE(_MAX_DESCRIPTORS * _INT_BYTES)
        # Not socket.recv_fds: it forgets the flag, and leaves them open across an exec.
        data, controls, _, _ = self._sock.recvmsg(size, space, _socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in controls:
            if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
                found = array.array("i")
                found.frombytes(content[: len(content) // _INT_BYTES * _INT_BYTES])
                self._descriptors += found
        return data


def pair() -> tuple[Channel, Channel]:
    """Two connected ends."""
    left, right = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM)
    return Channel(left), Channel(right)
