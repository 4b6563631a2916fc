"""The kernel that a handler in a worker gets: what it is asked for is done outside.

What decides, records, asks people and starts programs is the kernel that the request was made
to; this process only says what it wants. Tools are code of the application: they run here,
behind the walls of the request.
"""

from __future__ import annotations

import pickle
import socket
import threading
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.to_thread

from axonkernel.box import frames
from axonkernel.box.frames import ASK, Frames
from axonkernel.errors import AuditError, PolicyDenied
from axonkernel.kernel import passing
from axonkernel.kernel.core import Core
from axonkernel.kernel.kernel import Kernel
from axonkernel.kernel.mediator import Mediator
from axonkernel.kernel.scope import Layer, Scope
from axonkernel.policy.model import Policy
from axonkernel.policy.request import AnyRequest, Decision
from axonkernel.process import ProcessResult

__all__ = ["Audit", "Link", "Nobody", "Outside", "WorkerKernel"]


class Link:
    """The way to the kernel outside, for all threads of the worker."""

    def __init__(self) -> None:
        self.layers: tuple[Layer, ...] = ()
        self._sending = threading.Lock()
        self._changed = threading.Condition()
        self._answers: dict[int, tuple[bool, Any]] = {}
        self._number = 0
        self._closed = False
        self._listening = False

    def connect(self, sock: socket.socket, reader: Frames) -> None:
        """Have the socket of this worker."""
        self._sock = sock
        self._reader = reader

    def send(self, kind: int, body: bytes) -> None:
        """Send one frame. Raises AuditError when the kernel is gone."""
        try:
            with self._sending:
                frames.send(self._sock, kind, body)
        except OSError as error:
            raise AuditError("the kernel is gone") from error

    def ask(self, what: str, *args: Any) -> Any:
        """Have something done outside, and wait. Raises what it raised there."""
        with self._changed:
            if not self._listening:
                self._listening = True
                threading.Thread(target=self._listen, daemon=True).start()
            self._number += 1
            number = self._number
        self.send(ASK, passing.passed((number, what, args)))
        with self._changed:
            self._changed.wait_for(lambda: number in self._answers or self._closed)
            if number not in self._answers:
                raise AuditError("the kernel is gone")
            fine, value = self._answers.pop(number)
        if not fine:
            raise value
        return value

    async def ask_async(self, what: str, *args: Any) -> Any:
        """:meth:`ask` on an event loop."""
        return await anyio.to_thread.run_sync(
            self.ask, what, *args, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )

    def _listen(self) -> None:
        try:
            while True:
                _, body = self._reader.receive()
                number, fine, value = pickle.loads(body)
                with self._changed:
                    self._answers[number] = fine, value
                    self._changed.notify_all()
        except (EOFError, OSError):
            with self._changed:
                self._closed = True
                self._changed.notify_all()


class Audit:
    """The kernel's log, from inside; see :class:`axonkernel.audit.AuditSink`."""

    def __init__(self, link: Link) -> None:
        self._link = link

    def record(self, kind: str, /, **fields: Any) -> str:
        """Store one record outside. Raises AuditError when it cannot be."""
        return str(self._link.ask("record", kind, fields))


class Nobody:
    """Nobody is asked from here: what has to be asked is asked outside."""

    async def ask(self, question: Any) -> Any:
        """Never called."""
        raise AssertionError(question)

    def ask_sync(self, question: Any) -> Any:
        """Never called."""
        raise AssertionError(question)


class Outside(Mediator):
    """Has requests judged outside."""

    def __init__(self, link: Link, inner: Mediator) -> None:
        super().__init__(inner.audit, Nobody(), "")
        self.link = link

    async def require(
        self,
        request: AnyRequest,
        scope: Scope,
        env: Mapping[str, str] | None = None,
        *,
        leave: bool = False,
    ) -> str:
        """See :meth:`Mediator.require`."""
        args = request, dict(env or {}), _policies(scope, self.link)
        return str(await self.link.ask_async("require", *args))

    def require_sync(
        self,
        request: AnyRequest,
        scope: Scope,
        env: Mapping[str, str] | None = None,
        *,
        leave: bool = False,
    ) -> str:
        """See :meth:`Mediator.require_sync`."""
        return str(self.link.ask("require", request, dict(env or {}), _policies(scope, self.link)))

    def refuse(self, request: AnyRequest, decision: Decision) -> PolicyDenied:
        """Never called: programs are planned outside."""
        raise AssertionError(request)


def _policies(scope: Scope, link: Link) -> tuple[Policy, ...]:
    """What the handler itself narrows; what holds for the whole request is known outside."""
    return tuple(layer.policy for layer in scope.layers if layer not in link.layers)


class WorkerKernel(Kernel):
    """The kernel of a handler in a worker."""

    def _attach(self, core: Core, base: Scope, handler: Any, posture: Any) -> None:
        super()._attach(core, base, handler, posture)
        assert isinstance(core.mediator, Outside)
        self._link = core.mediator.link
        self.process = _Processes(self._link, self._scope)  # type: ignore[assignment]

    async def run_block(
        self, kind: str, source: str, *, timeout: float | None = None
    ) -> ProcessResult:
        """See :meth:`Kernel.run_block`."""
        args = kind, source, timeout, _policies(self._scope(), self._link)
        result: ProcessResult = await self._link.ask_async("run_block", *args)
        return result

    async def request(
        self, request: Any, policy: Policy | Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        """See :meth:`Kernel.request`; one that is narrowed again gets a worker of its own."""
        if policy is None:
            return await super().request(request)
        policies = _policies(self._scope(), self._link)
        return await self._link.ask_async("request", request, policy, options, policies)


class _Processes:
    """``kernel.process`` of a worker: programs start outside, as they do for that kernel."""

    def __init__(self, link: Link, scope: Any) -> None:
        self._link = link
        self._scope = scope

    async def run(self, command: Any, **options: Any) -> ProcessResult:
        """See :meth:`axonkernel.kernel.processes.Processes.run`."""
        result: ProcessResult = await self._link.ask_async("run", *self._asked(command, options))
        return result

    def run_sync(self, command: Any, **options: Any) -> ProcessResult:
        """:meth:`run` for code without an event loop."""
        result: ProcessResult = self._link.ask("run", *self._asked(command, options))
        return result

    async def spawn(self, command: Any, **options: Any) -> _Spawned:
        """A program beside the handler; it ends with the request."""
        return _Spawned(
            self._link, *await self._link.ask_async("spawn", *self._asked(command, options))
        )

    def spawn_sync(self, command: Any, **options: Any) -> _Spawned:
        """:meth:`spawn` for code without an event loop."""
        return _Spawned(self._link, *self._link.ask("spawn", *self._asked(command, options)))

    def _asked(self, command: Any, options: dict[str, Any]) -> tuple[Any, ...]:
        words = command if isinstance(command, str) else list(command)
        return words, options, _policies(self._scope(), self._link)


class _Spawned:
    """See :class:`axonkernel.kernel.spawned.Spawned`."""

    def __init__(self, link: Link, number: int, pid: int) -> None:
        self._link = link
        self._number = number
        self.pid = pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return bool(self._link.ask("spawned", self._number, "running"))

    def kill(self) -> None:
        """End it and everything it started, and wait until that is done."""
        self._link.ask("spawned", self._number, "kill")

    async def wait(self) -> ProcessResult:
        """Wait for its end. Raises LimitExceeded when a limit ended it."""
        result: ProcessResult = await self._link.ask_async("spawned", self._number, "wait")
        return result

    def wait_sync(self) -> ProcessResult:
        """:meth:`wait` for code without an event loop."""
        result: ProcessResult = self._link.ask("spawned", self._number, "wait")
        return result
