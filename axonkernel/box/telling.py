"""What a box is refused on the network, told to its supervisor while it runs.

Standard library only.
"""

from __future__ import annotations

import select
from collections.abc import Callable, Iterable

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
        name_of: the name that an address was the answer to; "" for none.
    """

    def __init__(
        self, refusals: Refusals, control: Channel, name_of: Callable[[str], str] = lambda _: ""
    ) -> None:
        self._refusals = refusals
        self._control = control
        self._name_of = name_of
        self._untold: dict[tuple[str, str, int, str], Refusal] = {}
        self._asked: dict[str, None] = {}

    def note(self, refusals: Iterable[Refusal], asked: Iterable[str] = ()) -> None:
        """Take what was refused just now. Raises ChannelClosed.

        Arguments:
            asked: names that wait for a person; each is told, whatever was told before.
        """
        for entry in self._refusals.note(*refusals):
            self._untold[entry[:4]] = entry
        self._asked |= dict.fromkeys(asked)
        if (self._untold or self._asked) and self._has_room():
            refused, names = list(self._untold.values()), list(self._asked)
            self._control.send({"event": "net", "refused": refused, "asked": names})
            self._untold.clear()
            self._asked.clear()

    def look(self) -> None:
        """Take what the table refused. Raises BoxError or ChannelClosed."""
        from axonkernel.box.resolver.refused import read

        self.note(each._replace(name=self._name_of(each.address)) for each in read())

    def _has_room(self) -> bool:
        """Whether a message can be sent at once: a supervisor may be slow, or stopped."""
        poll = select.poll()
        poll.register(self._control, select.POLLOUT)
        return bool(poll.poll(0))
