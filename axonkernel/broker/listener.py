"""The supervisor's end of the socket that shims call: nothing that arrives there is trusted.

Standard library only.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from axonkernel.broker.wire import Ended, Refused

if TYPE_CHECKING:
    from axonkernel.box.launch import BoxProcess
    from axonkernel.box.model import BoxResult

__all__ = ["Answer", "Incoming", "Listener"]


class Incoming:
    """One call that waits for its outcome.

    Its descriptors are closed when the answer has been given. They come from the caller:
    hand them to a box, do not read or write them.

    Attributes:
        argv, cwd, env, program, found: what the caller says, see :class:`wire.Call`.
        files: descriptors for standard input, output and error; /dev/null for a closed one.
        pid: the process that connected, in this process's pid namespace; 0 when not in it.
    """

    argv: tuple[str, ...]
    cwd: str
    env: Mapping[str, str]
    program: str
    found: str
    files: tuple[int, int, int]
    pid: int

    def fileno(self) -> int:
        """Until :meth:`follow`: readable when the caller has died, or lost its rights by
        sending what it may not."""
        raise NotImplementedError

    def gone(self) -> bool:
        """Whether nobody waits for this call any more: then nothing may run for it."""
        raise NotImplementedError

    def follow(self, box: BoxProcess) -> BoxResult:
        """Tell the caller that its program runs, and wait for the box's end.

        Signals of the caller go to the program; a caller that has died, before or meanwhile,
        ends the box, as does :meth:`Listener.close`.
        """
        raise NotImplementedError


#: Judges one call, in a thread of its own; an exception is a refusal without a reason.
Answer = Callable[[Incoming], Refused | Ended]


class Listener:
    """Answers the calls of one box until it is closed.

    Arguments:
        place: path of the socket to make (any length, in an existing folder), or a socket
            that listens.
        answer: see :data:`Answer`.
        most: calls that are answered at one time; more wait.
    """

    def __init__(
        self, place: str | os.PathLike[str] | socket.socket, answer: Answer, most: int = 64
    ) -> None:
        raise NotImplementedError

    def close(self) -> None:
        """Take no more calls, end those that run, and wait until their answers have returned."""
        raise NotImplementedError
