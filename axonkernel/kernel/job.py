"""One narrowed request in its worker, from the order to the end of all that it started.

Nothing that comes from the worker is trusted: a call that it wants is judged here, by the
policies of the request, and what it returns is read by an Unpasser.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import select
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread

from axonkernel.box import frames
from axonkernel.box.caps import limits_plan
from axonkernel.box.frames import (
    ASK,
    ERROR,
    ORDER,
    RESULT,
    UNCONFINED,
    FrameFault,
    Frames,
)
from axonkernel.box.zygote import ENDED
from axonkernel.errors import AxonError, BoxError, LimitExceeded, ToolError
from axonkernel.kernel.answers import Answers
from axonkernel.kernel.passing import Unpassable
from axonkernel.policy.model import Policy

if TYPE_CHECKING:
    from axonkernel.kernel.kernel import Kernel
    from axonkernel.kernel.worker_walls import Planned
    from axonkernel.kernel.zygotes import Ends

__all__ = ["Job", "current_backend"]

#: What a worker may send at once.
_MOST_BYTES = 1 << 30
_CHUNK = 65536


class Job:
    """Runs one request; ``run`` blocks, ``cancel`` comes from any thread.

    Arguments:
        view: the kernel, narrowed to what holds for the request.
        request: what the handler gets.
        backend: the event loop it runs on.

    Raises ToolError for a request that cannot be pickled.
    """

    def __init__(self, view: Kernel, planned: Planned, request: Any, backend: str) -> None:
        self._core = view._core
        assert self._core.workers is not None
        self._workers = self._core.workers
        self._view = view
        self._planned = planned
        self._request = _pickled(request)
        self._backend = backend
        self._lock = threading.Lock()
        self._ends: Ends | None = None
        self._cancelled = False
        self._outcome: Callable[[], Any] | None = None
        self._code: int | None = None
        self._answers: Answers | None = None
        self._folder = ""  # of its control group
        limits = view.policy.limits
        self._wall_s = None if limits is None else limits.wall_s
        self._left_s = self._wall_s
        self.done = threading.Event()

    def run(self) -> Any:
        """Have the request served. Everything it started has ended when this returns.

        Raises what the handler raises, as far as that can leave a worker; BoxError when the
        worker could not be confined, and nothing ran.
        """
        with self._workers.serving(self):
            self._run()
        if self._outcome is None:
            raise self._unfinished()
        return self._outcome()

    def _run(self) -> None:
        try:
            ends = self._workers.take(empty_net=self._planned.walls.empty_net)
            try:
                self._begin(ends)
                self._watch(ends)
            finally:
                self._end(ends)
        finally:
            self.done.set()
            self._workers.refill()

    async def run_async(self) -> Any:
        """:meth:`run` in a thread; cancelling ends the worker, and waits for that."""
        try:
            return await anyio.to_thread.run_sync(
                self.run,
                abandon_on_cancel=True,
                # Waiting requests must not use up the threads that others share.
                limiter=anyio.CapacityLimiter(1),
            )
        except anyio.get_cancelled_exc_class():
            self.cancel()
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self.done.wait, limiter=anyio.CapacityLimiter(1))
            raise

    def cancel(self) -> None:
        """End the worker and all that it started."""
        with self._lock:
            self._cancelled = True
            if self._ends is not None:
                _hang_up(self._ends)

    def forget(self) -> None:
        """In a forked child: it is not this process's."""
        if self._ends is not None:
            self._ends.close()

    # -- the worker's life --------------------------------------------------------------

    def _begin(self, ends: Ends) -> None:
        with self._lock:
            self._ends = ends
            if self._cancelled:
                _hang_up(ends)
                return
        self._folder = self._limit(ends)
        known = self._core.base.layers
        layers = [each for each in self._view._scope().layers if each not in known]
        order = {
            "walls": self._planned.walls,
            "layers": [(each.name, each.policy) for each in layers],
            "request": self._request,
            "backend": self._backend,
            "posture": self._planned.posture,
        }
        with contextlib.suppress(OSError):  # it has ended: that is what is seen next
            frames.send(ends.frames, ORDER, pickle.dumps(order))

    def _limit(self, ends: Ends) -> str:
        """Put the worker into a control group, if it needs one."""
        capped = self._planned.capped
        plan = None if capped is None else limits_plan(Policy(limits=capped))
        if plan is None:
            return ""
        return self._workers.limiter().confine(plan, _tree_of(ends.pid), ends.pid)

    def _watch(self, ends: Ends) -> None:
        reader = Frames(ends.frames, _MOST_BYTES)
        poll = select.poll()
        for end in (ends.frames, ends.life, ends.out, ends.err):
            poll.register(end, select.POLLIN)
        names = {ends.out.fileno(): sys.stdout, ends.err.fileno(): sys.stderr}
        while self._code is None:
            began_s = time.monotonic()
            ready = poll.poll(None if self._left_s is None else max(0.0, self._left_s) * 1000 + 1)
            self._spend(time.monotonic() - began_s, ends)
            for fd, _ in ready:
                if fd == ends.life.fileno():
                    data = ends.life.recv(ENDED.size)
                    self._code = ENDED.unpack(data)[0] if len(data) == ENDED.size else 1
                elif fd in names:
                    if not _relayed(fd, names[fd]):
                        poll.unregister(fd)
                elif not self._read(reader, ends):
                    poll.unregister(fd)
        while self._outcome is None and self._read(reader, ends, last=True):
            pass
        for fd, stream in names.items():
            while _relayed(fd, stream):
                pass

    def _spend(self, spent_s: float, ends: Ends) -> None:
        if self._left_s is None or (self._answers is not None and self._answers.paused):
            return
        self._left_s -= spent_s
        if self._left_s <= 0:
            self._settle(ends, _raising(LimitExceeded("wall", "request", self._wall_s)))
            self._left_s = None

    def _read(self, reader: Frames, ends: Ends, *, last: bool = False) -> bool:
        """Take what has come; False when no more will."""
        try:
            found = reader.step()
        except (EOFError, OSError):
            _hang_up(ends)
            return False
        except (FrameFault, MemoryError) as error:
            self._break(ends, str(error))
            return False
        if found is None:
            return not last or _is_readable(ends.frames)
        if self._outcome is None:
            self._take(*found, ends)
        return True

    def _take(self, kind: int, body: bytearray, ends: Ends) -> None:
        unpasser = self._workers.unpasser
        if kind == ASK:
            self._ask(body, ends)
        elif kind == RESULT:
            self._settle(ends, lambda: _read_value(unpasser.value, body))
        elif kind == ERROR:
            self._settle(ends, lambda: _raise(_read_value(unpasser.error, body)))
        elif kind == UNCONFINED:
            error = _read_value(unpasser.error, body)
            fault = BoxError("worker", f"it could not be confined; nothing ran: {error}")
            self._settle(ends, _raising(fault))
        else:
            self._break(ends, "it broke the protocol")

    def _ask(self, body: bytearray, ends: Ends) -> None:
        if self._answers is None:
            self._answers = Answers(self._view, ends.frames)
        try:
            match self._workers.unpasser.value(body):
                case (int(number), str(what), tuple(args)):
                    self._answers.take(number, what, args, len(body))
                case _:
                    raise Unpassable("it is no question")
        except (Unpassable, KeyError):
            self._break(ends, "it broke the protocol")

    def _break(self, ends: Ends, why: str) -> None:
        self._settle(ends, _raising(ToolError("request", f"the worker was ended: {why}")))

    def _settle(self, ends: Ends, outcome: Callable[[], Any]) -> None:
        """What came of it is known: end the rest."""
        if self._outcome is None:
            self._outcome = outcome
        _hang_up(ends)

    def _end(self, ends: Ends) -> None:
        with self._lock:
            self._ends = None
        if self._answers is not None:
            self._answers.close()
        _hang_up(ends)
        with contextlib.suppress(OSError):
            # Until the guard has ended everything, and said so.
            while self._code is None and ends.life.recv(_CHUNK):
                pass
        ends.close()
        if self._folder:
            from axonkernel.box import direct

            direct.remove(self._folder)

    def _unfinished(self) -> AxonError:
        capped = self._planned.capped
        code = self._code or 0
        if code in (-9, 137) and capped is not None and capped.memory_bytes:
            return LimitExceeded("memory", "request", capped.memory_bytes)
        how = f"signal {-code}" if code < 0 else f"signal {code - 128}" if code > 128 else "an exit"
        return ToolError("request", f"the worker ended by {how} before it answered")


def current_backend() -> str:
    """The event loop that the caller runs on, as anyio names it."""
    trio = sys.modules.get("trio")
    return "trio" if trio is not None and trio.lowlevel.in_trio_run() else "asyncio"


def _pickled(request: Any) -> bytes:
    try:
        return pickle.dumps(request)
    except Exception as error:
        text = f"it cannot be handed to a worker: {type(error).__name__}: {error}"
        raise ToolError("request", text) from error


def _hang_up(ends: Ends) -> None:
    with contextlib.suppress(OSError):
        ends.life.shutdown(socket.SHUT_WR)


def _is_readable(sock: socket.socket) -> bool:
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


def _relayed(fd: int, stream: Any) -> bool:
    """Hand on some output; False at its end."""
    try:
        with socket.socket(fileno=os.dup(fd)) as sock:
            data = sock.recv(_CHUNK, socket.MSG_DONTWAIT)
    except BlockingIOError:
        return False
    except OSError:
        return False
    if data and stream is not None:
        with contextlib.suppress(OSError, ValueError):
            stream.write(data.decode("utf-8", "backslashreplace"))
            stream.flush()
    return bool(data)


def _tree_of(pid: int) -> tuple[int, ...]:
    """A process and everything below it."""
    found, waiting = [], [pid]
    while waiting:
        each = waiting.pop()
        found.append(each)
        with contextlib.suppress(OSError), open(f"/proc/{each}/task/{each}/children") as file:
            waiting += map(int, file.read().split())
    return tuple(found)


def _read_value(read: Callable[[Any], Any], body: bytearray) -> Any:
    try:
        return read(body)
    except Unpassable as error:
        raise ToolError("request", f"what the worker returned is refused: {error}") from None


def _raise(error: Exception) -> Any:
    raise error


def _raising(error: Exception) -> Callable[[], Any]:
    return lambda: _raise(error)
