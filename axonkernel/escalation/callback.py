"""A decider in application code: a function that is given the question."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from functools import partial

import anyio.to_thread

from axonkernel.escalation.question import Answer, Question

__all__ = ["Callback"]

Reply = Answer | bool | None


class Callback:
    """Asks a function of the application.

    Arguments:
        function: takes the :class:`Question`; returns an :class:`Answer`, True (yes, once),
            False (no) or None (nobody answered). A coroutine function runs in the caller's
            event loop, any other in a thread.
        name: what the audit log calls it.
    """

    def __init__(
        self, function: Callable[[Question], Awaitable[Reply] | Reply], name: str = "callback"
    ) -> None:
        self._function = function
        self.name = name

    def available(self) -> bool:
        """Always."""
        return True

    async def decide(self, question: Question) -> Answer | None:
        """Call the function. Anything but the values above is no answer."""
        reply: object
        if inspect.iscoroutinefunction(self._function):
            reply = await self._function(question)
        else:
            call = partial(self._function, question)
            reply = await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
            if inspect.isawaitable(reply):
                reply = await reply
        # By identity: a truthy object that happens to come back must not pass for a yes.
        if reply is True:
            return Answer.yes(self.name)
        if reply is False:
            return Answer.no(self.name)
        return reply if isinstance(reply, Answer) else None
