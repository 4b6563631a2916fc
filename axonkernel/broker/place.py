"""Where the socket of one box's broker lies: a folder of its own that nobody else comes near.

Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator

__all__ = ["Place", "listening"]

_SOCKET = "socket"
#: Callers that the kernel lets wait at the door; beyond, connecting blocks.
_BACKLOG = 1024


def listening(path: str) -> socket.socket:
    """A socket at ``path``, of any length, that takes calls of every user who comes near it.

    Raises OSError.
    """
    folder = os.open(os.path.dirname(path) or ".", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        # The kernel takes a hundred bytes for a path.
        sock.bind(f"/proc/self/fd/{folder}/{os.path.basename(path)}")
        # The box's user may be another one. Who may come near is for the folder to say.
        os.chmod(path, 0o666)
        sock.listen(_BACKLOG)
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(folder)
    return sock


class Place:
    """A folder below our state, for as long as this process lives or until it is closed.

    Whoever makes one also removes those whose process was killed.

    Arguments:
        state: our state, which no box has.

    Attributes:
        path: of the socket, to be made there and mounted in the box.

    Raises OSError when the state cannot be written.
    """

    def __init__(self, state: str) -> None:
        around = os.path.join(state, "brokers")
        os.makedirs(around, mode=0o700, exist_ok=True)
        with _locked(around):
            _sweep(around)
            self._folder = os.path.join(around, os.urandom(8).hex())
            os.mkdir(self._folder, 0o700)
            self._lock = _lock(self._folder)
        self.path = os.path.realpath(os.path.join(self._folder, _SOCKET))

    def close(self) -> None:
        """Remove the folder and the name of the socket."""
        if self._lock >= 0:
            _remove(self._folder)
            os.close(self._lock)
            self._lock = -1


@contextlib.contextmanager
def _locked(folder: str) -> Iterator[None]:
    """Nobody else makes or removes folders in it meanwhile."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _lock(folder: str) -> int:
    """A lock on a folder that lasts as long as this process, which no number of one tells."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _sweep(around: str) -> None:
    for name in os.listdir(around):
        folder = os.path.join(around, name)
        with contextlib.suppress(OSError):  # somebody's, or nothing of ours
            descriptor = _lock(folder)
            _remove(folder)
            os.close(descriptor)


def _remove(folder: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, _SOCKET))
    with contextlib.suppress(OSError):  # what is in it is not ours
        os.rmdir(folder)
