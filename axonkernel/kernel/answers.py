"""What a worker asks its kernel for, done here and answered: judged, and ended with the request.

Nothing that a worker says is trusted: what it wants is judged by the policies of the request.
"""

from __future__ import annotations

import contextlib
import pickle
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio

from axonkernel.box import frames
from axonkernel.box.frames import REPLY
from axonkernel.errors import AuditError, AxonError, ToolError
from axonkernel.given import policy_from
from axonkernel.policy.model import Policy
from axonkernel.policy.request import AnyRequest, Request

if TYPE_CHECKING:
    from axonkernel.kernel.kernel import Kernel
    from axonkernel.kernel.spawned import Spawned

__all__ = ["Answers"]

#: Calls of one worker that are looked at together.
_MOST_ASKING = 64
#: Records that the calls of one worker may leave, what one takes beside what was said, and how
#: much of that a record keeps.
MOST_RECORDED_BYTES = 64 * 1024 * 1024
_RECORD_BYTES, _MOST_KEPT_BYTES = 1024, 64 * 1024
_RECORDS = frozenset({"narrowing.clamped"})


class Answers:
    """Answers one worker; each question in a thread of its own.

    Arguments:
        view: the kernel, narrowed to what holds for the request.
        way: the socket to the worker.

    Attributes:
        paused: how many questions may wait for a person: the clock stands still meanwhile.
    """

    def __init__(self, view: Kernel, way: socket.socket) -> None:
        self.paused = 0
        self._view = view
        self._core = view._core
        self._way = way
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._slots = threading.BoundedSemaphore(_MOST_ASKING)
        self._stopping: list[Callable[[], None]] = []
        self._spawned: dict[int, Spawned] = {}
        self._over = False
        self._left_bytes = MOST_RECORDED_BYTES

    def take(self, number: int, what: str, args: tuple[Any, ...], size_bytes: int) -> None:
        """Start to answer. Raises KeyError where there is no such question.

        Arguments:
            size_bytes: of the question as it came.
        """
        answer = _ANSWERS[what]
        self._left_bytes -= _RECORD_BYTES + min(size_bytes, _MOST_KEPT_BYTES)
        if self._left_bytes < 0:
            self._reply(number, False, AuditError("one request may not record more"))
            return
        if not self._slots.acquire(blocking=False):
            self._reply(number, False, ToolError("request", "too many calls at once"))
            return
        work = threading.Thread(target=self._answer, args=(number, answer, args), daemon=True)
        work.start()

    def close(self) -> None:
        """The request has ended: so does what it started here."""
        with self._lock:
            self._over = True
            stopping, self._stopping = self._stopping, []
        for stop in stopping:
            stop()

    def _answer(self, number: int, answer: Callable[..., Any], args: Any) -> None:
        try:
            self._reply(number, True, answer(self, *args))
        except Exception as error:
            own = isinstance(error, AxonError) or answer is Answers._do_request
            text = f"{type(error).__name__}: {error}"  # of arguments that none of ours sends
            self._reply(number, False, error if own else ToolError("request", text))
        finally:
            self._slots.release()

    def _reply(self, number: int, fine: bool, value: Any) -> None:
        try:
            body = pickle.dumps((number, fine, value))
        except Exception as error:
            text = f"{type(value).__name__}: it cannot be handed to a worker: {error}"
            body = pickle.dumps((number, False, ToolError("request", text)))
        with contextlib.suppress(OSError), self._sending:
            frames.send(self._way, REPLY, body)

    def _narrower(self, policies: Any) -> Kernel:
        """The view of the request, narrowed by what the handler itself narrows."""
        view = self._view
        held = {each.policy for each in view._base.layers}
        for policy in policies:
            if not isinstance(policy, Policy):
                raise ToolError("request", "a policy is wanted")
            self._opens_nothing(policy)
            if policy not in held:
                view = view._narrowed(policy, False)
        return view

    def _opens_nothing(self, policy: Policy) -> None:
        """Files that a policy names would be read here, and their faults told to the worker."""
        own = {file for each in self._view._base.layers for file in _profiles(each.policy)}
        if not own.issuperset(_profiles(policy)):
            raise ToolError("request", "a worker cannot have files of profiles read")

    @contextmanager
    def _paused_for(self, view: Kernel, request: Any) -> Iterator[None]:
        """The clock stands still while a person may be asked."""
        asks = view.check(request).verdict == "escalate"
        with self._lock:
            self.paused += asks
        try:
            yield
        finally:
            with self._lock:
                self.paused -= asks

    @contextmanager
    def _stopped_by(self, stop: Callable[[], None]) -> Iterator[None]:
        """Have ``stop`` called when the request ends before what it stops."""
        with self._lock:
            if self._over:
                raise AuditError("the request has ended")
            self._stopping.append(stop)
        try:
            yield
        finally:
            with self._lock, contextlib.suppress(ValueError):
                self._stopping.remove(stop)

    def _on_loop(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Run something here that ends with the request."""
        import asyncio

        async def run() -> Any:
            loop, scope = asyncio.get_running_loop(), anyio.CancelScope()

            def stop() -> None:
                with contextlib.suppress(RuntimeError):  # it has ended by itself
                    loop.call_soon_threadsafe(scope.cancel)

            with self._stopped_by(stop), scope:
                return await work()
            raise AuditError("the request has ended")

        return anyio.run(run)

    def _do_require(self, request: Any, env: Any, policies: Any) -> str:
        view = self._narrower(policies)
        with self._paused_for(view, request):
            return self._core.mediator.require_sync(request, view._base, env)

    def _do_record(self, kind: Any, fields: Any) -> str:
        if kind not in _RECORDS:
            raise ToolError("request", f"a record of {kind!r} is not the worker's to make")
        own = {key: value for key, value in fields.items() if key not in ("id", "source")}
        return self._core.audit.record(kind, **own, source="worker")

    def _do_run(self, command: Any, options: Any, policies: Any) -> Any:
        view = self._narrower(policies)
        with self._paused_for(view, _asked(command)):
            return self._on_loop(lambda: view.process.run(command, **options))

    def _do_run_block(self, kind: Any, source: Any, timeout_s: Any, policies: Any) -> Any:
        view = self._narrower(policies)
        with self._paused_for(view, Request.tool(f"block.{kind}")):
            return self._on_loop(lambda: view.run_block(kind, source, timeout=timeout_s))

    def _do_spawn(self, command: Any, options: Any, policies: Any) -> tuple[int, int]:
        view = self._narrower(policies)
        with self._paused_for(view, _asked(command)):
            spawned = view.process.spawn_sync(command, **options)
        with self._lock:
            number, over = len(self._spawned), self._over
            self._spawned[number] = spawned
            self._stopping.append(spawned.kill)
        if over:
            spawned.kill()
        return number, spawned.pid

    def _do_spawned(self, number: Any, what: Any) -> Any:
        spawned = self._spawned[number]
        if what == "running":
            return spawned.running
        return spawned.kill() if what == "kill" else spawned.wait_sync()

    def _do_request(self, request: Any, policy: Any, options: Any, policies: Any) -> Any:
        view = self._narrower(policies)
        strict = bool(options.get("strict"))
        policy = policy_from(policy, self._core.cwd)
        self._opens_nothing(policy)
        # Whatever it asks for: what is confined hands nothing to what is not.
        ask = partial(view.request, request, policy, strict=strict, confine="worker")
        return self._on_loop(ask)


#: By name, what a worker can ask for.
_ANSWERS: dict[str, Callable[..., Any]] = {
    "require": Answers._do_require,
    "record": Answers._do_record,
    "run": Answers._do_run,
    "run_block": Answers._do_run_block,
    "spawn": Answers._do_spawn,
    "spawned": Answers._do_spawned,
    "request": Answers._do_request,
}


def _profiles(policy: Policy) -> tuple[str, ...]:
    return policy.shell.profiles if policy.shell is not None else ()


def _asked(command: Any) -> AnyRequest:
    return Request.shell(command) if isinstance(command, str) else Request.process(command)
