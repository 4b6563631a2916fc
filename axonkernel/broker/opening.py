"""The place where a box's shims call, made before the box. Standard library only."""

from __future__ import annotations

from axonkernel.box.brokered import with_broker
from axonkernel.box.channel import pair
from axonkernel.box.model import BoxPlan
from axonkernel.broker.place import Place, listening
from axonkernel.folders import state_folder

__all__ = ["Opening"]


class Opening:
    """A socket for one box, and the way to its private folders.

    Outside, the socket has a name only until the box is there. What a supervisor leaves that is
    killed before, the next one removes.

    Raises OSError when our state cannot be written.

    Attributes:
        socket: listens.
        lender: where the box's private folders are asked for (box/lending.py).
        lends: the descriptor of the other end, for ``Command.lends``.
    """

    def __init__(self) -> None:
        self._place = Place(state_folder())
        self.socket = listening(self._place.path)
        self.lender, self._theirs = pair()
        self.lends = self._theirs.fileno()

    def plan(self, plan: BoxPlan) -> BoxPlan:
        """``plan`` with this socket in it."""
        return with_broker(plan, self._place.path)

    def begun(self) -> None:
        """The box is there, or will not be."""
        self._theirs.close()
        self._place.close()

    def close(self) -> None:
        """Take no more calls."""
        self.begun()
        self.lender.close()
        self.socket.close()
