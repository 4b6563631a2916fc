"""Where the socket of one box's broker lies: a folder of its own that nobody else comes near.

Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator

__all__ = ["Place"]

_SOCKET = "socket"


class Place:
    """A folder below our state, for as long as this process lives or until it is closed.

    Whoever makes one also removes those whose process was killed.

    Arguments:
        state: our state, which no box has.

    Attributes:
        folder: to be mounted in the box. The folders around it are closed to everybody else;
            this one lets pass who is in the box, whatever its user there.
        socket: for the listener.

    Raises OSError when the state cannot be written.
    """

    def __init__(self, state: str) -> None:
        around = os.path.join(state, "brokers")
        os.makedirs(around, mode=0o700, exist_ok=True)
        self._lock = -1
        with _locked(around):
            _sweep(around)
            self.folder = os.path.join(around, f"{os.getpid()}-{secrets.token_hex(8)}")
            os.mkdir(self.folder)
            os.chmod(self.folder, 0o711)
            self._lock = _lock(self.folder)
        self.socket = os.path.join(self.folder, _SOCKET)

    def close(self) -> None:
        """Remove the folder. Its listener has to be closed before."""
        if self._lock >= 0:
            _remove(self.folder)
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
