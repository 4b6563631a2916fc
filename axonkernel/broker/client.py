"""The shim's part for Python code inside a box. Standard library only."""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Mapping, Sequence

from axonkernel.broker.arriving import is_stream
from axonkernel.broker.wire import (
    BROKER_SOCKET,
    RELAYED,
    REPLY_HEADER_BYTES,
    Call,
    Ended,
    Refused,
    Started,
    WireError,
    call_bytes,
    reply_from,
    reply_header,
)
from axonkernel.errors import BoxError

__all__ = ["Calling", "call"]

_MOMENT_S = 0.005


class Calling:
    """A call on its way; closing it ends its program.

    Attributes:
        outcome: how it ended; None until then.
        started: whether its program runs, or ran.
    """

    def __init__(self, sock: socket.socket) -> None:
        self.outcome: Refused | Ended | None = None
        self.started = False
        self._sock = sock
        self._data = bytearray()

    def fileno(self) -> int:
        """Readable when :meth:`wait` with 0 seconds gets on."""
        return self._sock.fileno()

    def wait(self, timeout_s: float | None = None) -> Refused | Ended | None:
        """The outcome, or None when there is none after ``timeout_s`` seconds.

        Raises BoxError (stage ``broker``) when the supervisor hung up without one.
        """
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while self.outcome is None:
            left_s = None if until_s is None else max(0.0, until_s - time.monotonic())
            if not self._readable(left_s):
                return None
            self._take()
        return self.outcome

    def _readable(self, timeout_s: float | None) -> bool:
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return bool(poll.poll(None if timeout_s is None else timeout_s * 1000))

    def _take(self) -> None:
        """What has come of the next reply."""
        try:
            part = self._sock.recv(1 << 16)
            if not part:
                raise WireError("no outcome")
            self._data += part
            self._read_replies()
        except (OSError, WireError) as error:
            ran = "its program has ended too" if self.started else "the call did not run"
            raise BoxError("broker", f"the supervisor hung up, {ran}: {error}") from error

    def _read_replies(self) -> None:
        while self.outcome is None and len(self._data) >= REPLY_HEADER_BYTES:
            kind, value, length = reply_header(bytes(self._data[:REPLY_HEADER_BYTES]))
            end = REPLY_HEADER_BYTES + length
            if len(self._data) < end:
                return
            reply = reply_from(kind, value, bytes(self._data[REPLY_HEADER_BYTES:end]))
            del self._data[:end]
            if isinstance(reply, Started):
                self.started = True
            else:
                self.outcome = reply

    def signal(self, number: int) -> None:
        """Send a signal to the program, if it runs and the signal is one that shims relay."""
        if self.started and self.outcome is None and number in RELAYED:
            try:
                self._sock.send(bytes([number]), socket.MSG_NOSIGNAL | socket.MSG_DONTWAIT)
            except OSError:  # wait() tells
                return

    def close(self) -> None:
        """Let go of it: a program that runs is killed, a question is withdrawn."""
        self._sock.close()

    def __enter__(self) -> Calling:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def call(
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    files: tuple[int, int, int],
    *,
    program: str = "",
    policy: str = "",
    place: str = BROKER_SOCKET,
) -> Calling:
    """Ask the supervisor to run ``argv``.

    Arguments:
        files: standard input, output and error of the program, each a pipe, a socket, a
            terminal or the like (broker/arriving.py says why); -1 for /dev/null.
        program: the absolute path of the shim the call would have started; "" says nothing.
        policy: what holds for this call as well, as JSON; "" for nothing.
        place: the socket.

    Raises BoxError (stage ``broker``) when there is no supervisor to ask or a descriptor is
    none of these, WireError for a call that cannot be made.
    """
    opened = [number for number in (0, 1, 2) if files[number] >= 0]
    if not all(is_stream(files[number]) for number in opened):
        raise BoxError("broker", "a brokered program gets no files as its standard streams")
    data = call_bytes(Call(tuple(argv), cwd, env, program, program, policy), opened)
    sock: socket.socket | None = None
    try:
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        sock.connect(place)
        sent = _send_first(sock, data, [files[number] for number in opened])
        if sent < len(data):  # sending nothing fails where the answer has come already
            sock.sendall(memoryview(data)[sent:])
    except OSError as error:
        if sock is not None:
            sock.close()
        message = f"no supervisor answers, the call did not run: {error}"
        raise BoxError("broker", message) from error
    return Calling(sock)


def _send_first(sock: socket.socket, data: bytes, descriptors: list[int]) -> int:
    while True:
        try:
            return socket.send_fds(sock, [data], descriptors, socket.MSG_NOSIGNAL)
        except OSError as error:
            if error.errno != errno.ETOOMANYREFS:
                raise
            # So many of this user are on their way already: the supervisor takes them.
            time.sleep(_MOMENT_S)
