"""One call in the supervisor, from its arrival to its outcome. Standard library only."""

from __future__ import annotations

import os
import select
import socket
from collections.abc import Mapping
from itertools import groupby
from typing import TYPE_CHECKING

from axonkernel.broker.wire import RELAYED, Call, Ended, Refused, Reply, Started, reply_bytes

if TYPE_CHECKING:
    from axonkernel.box.launch import BoxProcess
    from axonkernel.box.model import BoxResult

__all__ = ["Incoming"]

#: ILL TRAP ABRT BUS FPE KILL SEGV PIPE XCPU XFSZ SYS: a program that ends with 128 + one of these
#: has died of it, as far as anybody can tell from the number.
_DEADLY = frozenset((4, 5, 6, 7, 8, 9, 11, 13, 24, 25, 31))


class Incoming:
    """One call that waits for its outcome.

    Attributes:
        argv, cwd, env, program, found, policy: what the caller says, see :class:`wire.Call`.
        files: descriptors for standard input, output and error; /dev/null for a closed one.
            They come from the caller: hand them to a box, do not read or write them. They are
            closed once a box is followed, which has its own, or the answer has been given.
        pid: the process that connected, in this process's pid namespace; 0 when not in it.
        started: whether the caller was told that its program runs.
    """

    def __init__(
        self, sock: socket.socket, call: Call, files: tuple[int, int, int], pid: int
    ) -> None:
        self.argv: tuple[str, ...] = call.argv
        self.cwd: str = call.cwd
        self.env: Mapping[str, str] = call.env
        self.program: str = call.program
        self.found: str = call.found
        self.policy: str = call.policy
        self.files = files
        self.pid = pid
        self.started = False
        self._sock = sock
        self._relayed: set[int] = set()

    def fileno(self) -> int:
        """Until :meth:`follow`: readable when the caller has died, or has lost its rights by
        sending what it may not."""
        return self._sock.fileno()

    def gone(self) -> bool:
        """Whether nobody waits for this call any more: then nothing may run for it."""
        poll = select.poll()
        early = 0 if self.started else select.POLLIN
        poll.register(self._sock, early | select.POLLRDHUP)
        return bool(poll.poll(0))

    def follow(self, box: BoxProcess) -> BoxResult:
        """Tell the caller that its program runs, and wait for the box's end.

        Signals of the caller go to the program; a caller that has died, before or meanwhile,
        ends the box, as does :meth:`Listener.close`.
        """
        self._let_go()
        poll = select.poll()
        poll.register(box, select.POLLIN)
        if self.gone() or not self._send(Started()):
            box.kill()
        else:
            poll.register(self._sock, select.POLLIN | select.POLLRDHUP)
        self.started = True
        while box.result is None:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if self._sock.fileno() in ready and not self._relay(box):
                poll.unregister(self._sock)
                box.kill()
            if box.fileno() in ready:
                box.wait(0)
        return box.result

    def _relay(self, box: BoxProcess) -> bool:
        """Pass on the signals that have come; False when the caller has gone, or sent
        anything else."""
        try:
            numbers = self._sock.recv(64)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not numbers or not RELAYED.issuperset(numbers):
            return False
        for number, _ in groupby(numbers):
            box.signal(number)
        self._relayed.update(numbers)
        return True

    def _send(self, reply: Reply) -> bool:
        """Whether the reply is on its way: a caller that does not read gets no more of them."""
        data = reply_bytes(reply)
        try:
            return self._sock.send(data, socket.MSG_NOSIGNAL) == len(data)
        except OSError:
            return False

    def finish(self, outcome: Refused | Ended | None) -> None:
        """Give the outcome, if there is one and somebody to take it, and let go of the call."""
        if outcome is not None:
            self._send(self._told(outcome))
        self._let_go()
        self._sock.close()

    def _told(self, outcome: Refused | Ended) -> Refused | Ended:
        """A box tells a death by a signal as an exit status, and so would any shell. The caller
        should see it die, unless it may as well have chosen that number."""
        if isinstance(outcome, Refused) or outcome.signal:
            return outcome
        number = outcome.status - 128
        if number not in _DEADLY and number not in self._relayed:
            return outcome
        return outcome._replace(status=0, signal=number)

    def _let_go(self) -> None:
        for descriptor in self.files:
            if descriptor >= 0:
                os.close(descriptor)
        self.files = (-1, -1, -1)

    def hang_up(self) -> None:
        """Have :meth:`gone` be true from now on, and the box that is followed end."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:  # the caller was faster
            return
