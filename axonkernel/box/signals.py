"""Signals of the supervisor belong to the agent, which is in a session of its own."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

__all__ = ["forwarded"]

_FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGCONT,
    signal.SIGWINCH,
)


#: Asked a second time to end, a box is ended: its program may ignore what it likes.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


class Signalled(Protocol):
    """What signals can be passed on to."""

    def signal(self, number: int) -> None:
        """Pass on one."""
        ...

    def kill(self) -> None:
        """End it."""
        ...


@contextmanager
def forwarded(box: Signalled) -> Iterator[None]:
    """Pass the user's signals on to the program in ``box`` until the end of the block.

    The second one that asks it to end kills the box.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread has handlers; elsewhere the application decides
        return
    asked = 0

    def pass_on(number: int, _: object) -> None:
        nonlocal asked
        asked += number in _ENDING
        box.signal(number)
        if asked > 1:
            box.kill()

    before = {number: signal.signal(number, pass_on) for number in _FORWARDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
