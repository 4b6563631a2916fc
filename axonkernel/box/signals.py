"""Signals of the supervisor belong to the agent, which is in a session of its own."""

from __future__ import annotations

import signal
import sys
from _thread import get_ident
from collections.abc import Iterator
from contextlib import contextmanager

from axonkernel.typed import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from axonkernel.box.pty import Terminal

__all__ = ["GRACE_S", "forwarded"]

_FORWARDED = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGTSTP,
    signal.SIGCONT,
    signal.SIGWINCH,
)


#: Asked a second time to end, a box is ended: its program may ignore what it likes.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
#: These come from programs and closing terminals, not from a person who can ask again.
_LAST = (signal.SIGTERM, signal.SIGHUP)
#: How long a program has after one of those (seconds), as `docker stop` gives it.
GRACE_S = 10.0


class Signalled(Protocol):
    """What signals can be passed on to."""

    def signal(self, number: int, grace_s: float | None = None) -> None:
        """Pass on one; after ``grace_s`` seconds end what still runs."""

    def kill(self) -> None:
        """End it."""


@contextmanager
def forwarded(box: Signalled, terminal: Terminal | None = None) -> Iterator[None]:
    """Pass the user's signals on to the program in ``box`` until the end of the block.

    The second one that asks it to end kills the box, as does :data:`GRACE_S` after SIGTERM or
    SIGHUP. SIGTSTP stops the program and then this process, SIGCONT both again.

    Arguments:
        terminal: the box's own, which gets the size of the caller's.
    """
    if not _is_main_thread():
        yield  # only the main thread has handlers; elsewhere the application decides
        return
    asked = 0

    def pass_on(number: int, _: object) -> None:
        nonlocal asked
        asked += number in _ENDING
        if number == signal.SIGWINCH and terminal is not None:
            terminal.resize()  # whose program is told by its own terminal
            return
        box.signal(number, GRACE_S if number in _LAST else None)
        if asked > 1:
            box.kill()
        if number == signal.SIGTSTP:
            _stop(terminal)
            # Its own handler may hear of it late: any thread can have been given the signal.
            box.signal(signal.SIGCONT)

    before = {number: signal.signal(number, pass_on) for number in _FORWARDED}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _is_main_thread() -> bool:
    threading = sys.modules.get("threading")  # without it there is no other
    return threading is None or threading.current_thread() is threading.main_thread()


def _stop(terminal: Terminal | None) -> None:
    """Stop this process, with the caller's terminal as it was, until it is continued."""
    if terminal is not None:
        terminal.hold()
    # To this thread, which then stops here and nowhere further on.
    signal.pthread_kill(get_ident(), signal.SIGSTOP)
    if terminal is not None:
        terminal.go_on()
