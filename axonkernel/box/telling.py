"""What a box is refused on the network, told to its supervisor while it runs.

Standard library only.
"""

from __future__ import annotations

import select

from axonkernel.box.channel import Channel
from axonkernel.box.model import Refusal
from axonkernel.box.resolver.reports import Refusals

__all__ = ["EVERY_S", "Telling"]

#: How often the table is looked at (seconds).
EVERY_S = 0.2


class Telling:
    """Tells a supervisor of refusals, never waiting for it.

    Arguments:
        refusals: everything so far.
        control: the channel to the supervisor.
    """

    def __init__(self, refusals: Refusals, control: Channel) -> None:
        self._refusals = refusals
        self._control = control
        self._untold: dict[tuple[str, str, int, str], Refusal] = {}

    def note(self, *refusals: Refusal) -> None:
        """Take what was refused just now. Raises ChannelClosed."""
        for entry in self._refusals.note(*refusals):
            self._untold[entry[:4]] = entry
        if self._untold and self._has_room():
            self._control.send({"event": "net", "refused": list(self._untold.values())})
            self._untold.clear()

    def look(self) -> None:
        """Take what the table refused. Raises BoxError or ChannelClosed."""
        from axonkernel.box.resolver.refused import read

        self.note(*read())

    def _has_room(self) -> bool:
        """Whether a message can be sent at once: a supervisor may be slow, or stopped."""
        poll = select.poll()
        poll.register(self._control, select.POLLOUT)
        return bool(poll.poll(0))
