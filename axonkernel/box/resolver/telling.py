"""What the resolver has to tell the warden, rolled up and never waited for.

Standard library only.
"""

from __future__ import annotations

import select
import time
from collections.abc import Callable

from axonkernel.box.channel import Channel
from axonkernel.box.model import Refusal
from axonkernel.box.resolver.loop import Loop
from axonkernel.box.resolver.reports import Refusals

__all__ = ["Tell"]

#: How soon what happened is told (seconds): a flood of questions is few messages.
_WITHIN_S = 0.05
#: Addresses whose names are told at one time.
_MOST_NAMED = 256


class Tell:
    """Takes refusals, and which names lead to which addresses.

    Arguments:
        channel: to the warden.
    """

    def __init__(self, loop: Loop, channel: Channel) -> None:
        self._loop = loop
        self._channel = channel
        self._refusals = Refusals()
        self._named: dict[str, str] = {}
        self._asked: dict[str, None] = {}
        self._is_due = False
        #: Called with each name and address that was answered.
        self.on_answer: Callable[[str, str], object] | None = None

    def refused(
        self,
        name: str,
        address: str = "",
        protocol: str = "dns",
        port: int = 0,
        program: str = "",
    ) -> None:
        """Something was not answered, or not let through."""
        now_s = round(time.time(), 3)
        entry = Refusal(address, protocol, port, name, 1, now_s, now_s, program)
        self._refusals.note(entry)
        self._soon()

    def answered(self, name: str, address: str) -> None:
        """A name was answered with an address."""
        if self.on_answer is not None:
            self.on_answer(name, address)
        if len(self._named) < _MOST_NAMED:
            self._named[address] = name
            self._soon()

    def asked(self, name: str) -> None:
        """A person has to say whether a name is answered."""
        self._asked[name] = None
        self._soon()

    def now(self, *, ordered: bool = False) -> None:
        """Send what there is; ``ordered`` by the warden, which waits for it."""
        named, self._named = self._named, {}
        asked, self._asked = list(self._asked), {}
        refused = self._refusals.take()
        self._channel.send({"refused": refused, "named": named, "asked": asked, "now": ordered})

    def _soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.after(_WITHIN_S, self._send)

    def _send(self) -> None:
        self._is_due = False
        if self._has_room():
            self.now()
        else:
            self._soon()

    def _has_room(self) -> bool:
        poll = select.poll()
        poll.register(self._channel, select.POLLOUT)
        return bool(poll.poll(0))
