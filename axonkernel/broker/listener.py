"""The supervisor's end of the socket that shims call: nothing that arrives there is trusted.

One thread takes all calls as they arrive, each complete one is answered in a thread of its own.
So a peer that sends nothing, or nonsense, or floods, takes nothing from others but a place in
the line: places are few, and lost soon by whoever does not use them.

Standard library only.
"""

from __future__ import annotations

import os
import resource
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable

from axonkernel.broker.arriving import Arriving
from axonkernel.broker.incoming import Incoming
from axonkernel.broker.place import listening
from axonkernel.broker.wire import DENIED, LOST, Ended, Refused, WireError
from axonkernel.errors import PolicyDenied
from axonkernel.forks import forget_in_children

__all__ = ["Answer", "Incoming", "Listener"]

#: Judges one call, in a thread of its own. A denial that it raises is the caller's answer.
Answer = Callable[[Incoming], Refused | Ended]

#: Connections whose call is not complete, and calls that wait for others to end.
_MOST_ARRIVING, _MOST_WAITING = 32, 16
#: Seconds a call may take to arrive, and how long one keeps its place when all are taken.
_ARRIVES_S, _KEEPS_S = 10.0, 0.1
#: Seconds without a look at new callers, when there is no descriptor left for one.
_PAUSE_S = 0.05
#: Descriptors of this process that one answered call uses, its box included.
_DESCRIPTORS = 24

_DID_NOT_RUN = "The call did not run."


class Listener:
    """Answers the calls of one box until it is closed.

    Arguments:
        place: path of the socket to make, in an existing folder, or a socket that listens.
        answer: see :data:`Answer`.
        most: calls that are answered at one time; more wait. Fewer where this process may
            not have the descriptors for so many.
    """

    def __init__(
        self, place: str | os.PathLike[str] | socket.socket, answer: Answer, most: int = 64
    ) -> None:
        self._answer = answer
        self._most = max(
            1, min(most, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _DESCRIPTORS)
        )
        self._sock = place if isinstance(place, socket.socket) else listening(os.fspath(place))
        self._sock.setblocking(False)
        self._wake_read, self._wake = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._arriving: dict[int, Arriving] = {}
        self._waiting: deque[Incoming] = deque()
        self._running: dict[Incoming, threading.Thread] = {}
        self._lock = threading.Lock()  # of _running and _closed
        self._closed = False
        self._pause_until_s = 0.0
        forget_in_children(self)
        self._thread = threading.Thread(target=self._serve, name="broker", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Take no more calls, end those that run, and wait until their answers have returned."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        self._nudge()
        self._thread.join()
        self._sock.close()
        for arriving in self._arriving.values():
            arriving.close()
        for waiting in self._waiting:
            waiting.finish(None)
        with self._lock:
            running = dict(self._running)
        for incoming in running:
            incoming.hang_up()
        for thread in running.values():
            thread.join()
        os.close(self._wake)
        os.close(self._wake_read)

    def _serve(self) -> None:
        """Take calls and start answers until the end."""
        while not self._closed:
            self._start_waiting()
            now_s = time.monotonic()
            poll = select.poll()
            poll.register(self._wake_read, select.POLLIN)
            if self._has_room(now_s):
                poll.register(self._sock, select.POLLIN)
            for descriptor in self._arriving:
                poll.register(descriptor, select.POLLIN)
            ready = {descriptor for descriptor, _ in poll.poll(self._patience_ms(now_s))}
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
            for descriptor in ready.intersection(self._arriving):
                self._take(self._arriving[descriptor])
            self._drop_late()
            if self._sock.fileno() in ready:
                self._accept()

    def _has_room(self, now_s: float) -> bool:
        if now_s < self._pause_until_s or len(self._waiting) >= _MOST_WAITING:
            return False
        return len(self._arriving) < _MOST_ARRIVING or now_s >= self._oldest_s() + _KEEPS_S

    def _oldest_s(self) -> float:
        return next(iter(self._arriving.values())).since_s

    def _patience_ms(self, now_s: float) -> float | None:
        """How long nothing may happen: places are lost, and a pause ends, without a word."""
        until_s = [self._pause_until_s] if now_s < self._pause_until_s else []
        if self._arriving:
            full = len(self._arriving) >= _MOST_ARRIVING
            until_s.append(self._oldest_s() + (_KEEPS_S if full else _ARRIVES_S))
        return max(1.0, (min(until_s) - now_s) * 1000) if until_s else None

    def _drop_late(self) -> None:
        now_s = time.monotonic()
        while self._arriving and now_s >= self._oldest_s() + _ARRIVES_S:
            self._drop(next(iter(self._arriving.values())))

    def _drop(self, arriving: Arriving) -> None:
        del self._arriving[arriving.sock.fileno()]
        arriving.close()

    def _accept(self) -> None:
        try:
            sock, _ = self._sock.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        except OSError:  # no descriptor is left: others have to end first
            self._pause_until_s = time.monotonic() + _PAUSE_S
            return
        if len(self._arriving) >= _MOST_ARRIVING:
            self._drop(next(iter(self._arriving.values())))
        arriving = Arriving(sock, time.monotonic())
        self._arriving[sock.fileno()] = arriving
        self._take(arriving)

    def _take(self, arriving: Arriving) -> None:
        """Go on with a call; one that is complete waits for its turn."""
        try:
            if not arriving.take():
                return
            assert arriving.call is not None
            incoming = Incoming(arriving.sock, arriving.call, arriving.files(), arriving.pid())
        except (WireError, OSError):
            self._drop(arriving)
            return
        del self._arriving[arriving.sock.fileno()]
        self._waiting.append(incoming)

    def _start_waiting(self) -> None:
        while self._waiting and len(self._running) < self._most:
            incoming = self._waiting.popleft()
            if incoming.gone():
                incoming.finish(None)
                continue
            thread = threading.Thread(target=self._run, args=(incoming,), daemon=True)
            with self._lock:
                self._running[incoming] = thread
            try:
                thread.start()
            except RuntimeError:  # no thread is to be had
                self._end(incoming, Refused(LOST, f"the supervisor is too busy. {_DID_NOT_RUN}"))

    def _run(self, incoming: Incoming) -> None:
        outcome: Refused | Ended | None = None
        try:
            outcome = self._answer(incoming)
        except PolicyDenied as denial:
            outcome = Refused(DENIED, str(denial), denial.as_dict())
        except Exception:
            outcome = _failed(incoming)
            raise
        finally:
            self._end(incoming, outcome)

    def _end(self, incoming: Incoming, outcome: Refused | Ended | None) -> None:
        incoming.finish(outcome)
        with self._lock:
            del self._running[incoming]
            self._nudge()

    def forget(self) -> None:
        """In a forked child: close what is the parent's, whose end callers must see."""
        if self._closed:
            return
        self._lock, self._closed = threading.Lock(), True
        self._sock.close()
        for arriving in self._arriving.values():
            arriving.close()
        for incoming in (*self._waiting, *self._running):
            incoming.finish(None)
        os.close(self._wake)
        os.close(self._wake_read)

    def _nudge(self) -> None:
        try:
            os.write(self._wake, b".")
        except BlockingIOError:  # it is awake
            return


def _failed(incoming: Incoming) -> Refused | Ended:
    """What a caller learns of a fault here."""
    if incoming.started:
        return Ended(LOST, 0, "the supervisor failed after the program was started.")
    return Refused(DENIED, f"denied (internal): the call could not be judged. {_DID_NOT_RUN}")
