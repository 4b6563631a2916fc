"""The place where a box's shims call, made before the box. Standard library only."""

from __future__ import annotations

import os
import socket
import tempfile

from axonkernel.box.brokered import with_broker
from axonkernel.box.channel import pair
from axonkernel.box.model import BoxPlan

__all__ = ["Opening"]

#: Calls that wait to be taken; beyond, connecting blocks.
_BACKLOG = 128


class Opening:
    """A socket for one box, and the way to its private folders.

    Outside, the socket has a name only until the box is there: nothing is left behind, however
    the supervisor ends.

    Attributes:
        socket: listens.
        lender: where the box's private folders are asked for (box/lending.py).
        lends: the descriptor of the other end, for ``Command.lends``.
    """

    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="axonkernel-")
        self._place = os.path.realpath(os.path.join(self._folder, "socket"))
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.bind(self._place)
        os.chmod(self._place, 0o666)  # the box's user may be another; the folder is closed
        self.socket.listen(_BACKLOG)
        self.lender, self._theirs = pair()
        self.lends = self._theirs.fileno()

    def plan(self, plan: BoxPlan) -> BoxPlan:
        """``plan`` with this socket in it."""
        return with_broker(plan, self._place)

    def begun(self) -> None:
        """The box is there, or will not be."""
        self._theirs.close()
        if self._folder:
            os.unlink(self._place)
            os.rmdir(self._folder)
        self._folder = ""

    def close(self) -> None:
        """Take no more calls."""
        self.begun()
        self.lender.close()
        self.socket.close()
