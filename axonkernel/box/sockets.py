"""Whose a unix socket is that lies in a folder both sides may write.

Standard library only.
"""

from __future__ import annotations

import time

from axonkernel.box.unixdiag import Listing

__all__ = ["Owners"]

#: bind(2) makes the file first and enters the socket into the namespace's list a moment
#: later; a socket of neither side within this time is some third one's (seconds).
_ENTERED_WITHIN_S = 0.1
_AGAIN_AFTER_S = 0.001


class Owners:
    """The sockets of the host and of the box, told apart by network namespace."""

    def __init__(self) -> None:
        self._host: Listing | None = None
        self._box: Listing | None = None
        try:
            self._host = Listing()
        except OSError:
            return  # a kernel without sock_diag: every socket counts as the host's

    def enter(self) -> None:
        """Called once in the box's network namespace."""
        if self._host is not None:
            self._box = Listing()

    def is_of_the_box(self, device: int, inode: int) -> bool:
        """Whether a program in the box has made the socket with this device and inode."""
        if self._host is None or self._box is None:
            return False
        deadline_s = time.monotonic() + _ENTERED_WITHIN_S
        while True:
            if self._box.has(device, inode):
                return True
            if self._host.has(device, inode) or time.monotonic() > deadline_s:
                return False
            time.sleep(_AGAIN_AFTER_S)
