"""The shim's part for Python code inside a box. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from axonkernel.broker.wire import BROKER_SOCKET, Ended, Refused

__all__ = ["Calling", "call"]


class Calling:
    """A call on its way; closing it ends its program.

    Attributes:
        outcome: how it ended; None until then.
        started: whether its program runs, or ran.
    """

    outcome: Refused | Ended | None
    started: bool

    def fileno(self) -> int:
        """Readable when :meth:`wait` with 0 seconds gets on."""
        raise NotImplementedError

    def wait(self, timeout_s: float | None = None) -> Refused | Ended | None:
        """The outcome, or None when there is none after ``timeout_s`` seconds.

        Raises BoxError (stage ``broker``) when the supervisor hung up without one.
        """
        raise NotImplementedError

    def signal(self, number: int) -> None:
        """Send a signal to the program, once it runs; before that one that ends a program
        withdraws the call."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of it: a program that runs is killed, a question is withdrawn."""
        raise NotImplementedError


def call(
    argv: Sequence[str],
    cwd: str,
    env: Mapping[str, str],
    files: tuple[int, int, int],
    *,
    program: str = "",
    place: str = BROKER_SOCKET,
) -> Calling:
    """Ask the supervisor to run ``argv``.

    Arguments:
        files: standard input, output and error of the program.
        program: the absolute path of the shim the call would have started; "" says nothing.
        place: the socket.

    Raises BoxError (stage ``broker``) when there is no supervisor to ask, WireError for a
    call that cannot be made.
    """
    raise NotImplementedError
