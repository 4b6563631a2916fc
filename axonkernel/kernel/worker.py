"""Inside a worker: the kernel its handler gets, whose every call is judged outside.

What decides, records, asks people and starts programs is the kernel that the request was made
to; this process only says what it wants. Tools are code of the application: they run here,
behind the walls of the request.
"""

from __future__ import annotations

import inspect
import os
import pickle
import socket
import sys
import threading
from collections.abc import Mapping
from functools import partial
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from types import TracebackType
from typing import Any, NoReturn

import anyio
import anyio.to_thread

from axonkernel.box import frames, giving_up
from axonkernel.box.frames import ASK, ERROR, RESULT, UNCONFINED, Frames
from axonkernel.box.giving_up import Spaces, give_up
from axonkernel.errors import AuditError, AxonError, PolicyDenied, ToolError
from axonkernel.kernel import passing
from axonkernel.kernel.core import Core
from axonkernel.kernel.kernel import Kernel
from axonkernel.kernel.mediator import Mediator
from axonkernel.kernel.origin import Module
from axonkernel.kernel.scope import Layer, Scope, entered
from axonkernel.policy.model import Policy
from axonkernel.policy.request import AnyRequest, Decision
from axonkernel.process import ProcessResult

__all__ = ["importing", "prepare"]

_MOST_BYTES = 1 << 40
_NEEDED = ("anyio._backends._asyncio", "encodings.idna", "encodings.ascii", "traceback")

_importing = False


def importing() -> bool:
    """Whether this process imports an agent's code to work for a kernel elsewhere."""
    return _importing


def prepare(given: dict[str, Any]) -> Any:
    """Import the agent's code in a zygote; returns what serves one request in a worker.

    Raises AxonError where the code does not define what it did.
    """
    global _importing
    _importing = True
    for name in _NEEDED:  # once, and not in each worker
        import_module(name)
    spaces = {module.name: _imported(module) for module in given["modules"]}
    finder, _, name = given["finder"].partition(":")
    handler, tools = getattr(import_module(finder), name)(spaces, given["key"])
    missing = [name for name in given["tools"] if name not in tools]
    if missing:
        raise AxonError(
            f"tools that no module of the handler registers: {', '.join(missing)}; import what "
            "registers them in the module that defines the handler, or say confine='mediator'"
        )
    link = _Link()
    core = Core(
        given["policies"],
        cwd=given["cwd"],
        audit=_Audit(link),
        deciders=(),
        asker=_Nobody(),
        launcher=None,
        tools=tools,
        name=given["name"],
        boxed=given["boxed"],
    )
    core.workers = None
    core.mediator = _Outside(link, core.mediator)
    return partial(_serve, link, core, handler, given["filter"])


def _imported(module: Module) -> Mapping[str, Any]:
    if not module.file:
        return vars(import_module(module.name))
    loader = SourceFileLoader(module.name, module.file)
    spec = spec_from_loader(module.name, loader)
    assert spec is not None
    made = module_from_spec(spec)
    sys.modules[module.name] = made
    if module.name == passing.MAIN:
        sys.modules["__main__"] = made  # by which name the kernel's process sends its values
    loader.exec_module(made)
    return vars(made)


# -- one request ------------------------------------------------------------------------


def _serve(
    link: _Link, core: Core, handler: Any, code: bytes, sock: socket.socket, spaces: Spaces
) -> NoReturn:
    giving_up.prepare(code)
    _warm_up()
    reader = Frames(sock, _MOST_BYTES)
    try:
        _, body = reader.receive()
    except EOFError:
        os._exit(0)  # a spare that was not needed
    kind, answer = _answer(link, core, handler, sock, reader, spaces, pickle.loads(body))
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    link.send(kind, answer)
    os._exit(0)


def _warm_up() -> None:
    """Touch now, while nobody waits, what a request touches: memory is copied at first use."""
    anyio.run(_nothing)
    passing.passed_error(ToolError("", ""))


async def _nothing() -> None:
    pass


def _answer(
    link: _Link,
    core: Core,
    handler: Any,
    sock: socket.socket,
    reader: Frames,
    spaces: Spaces,
    order: dict[str, Any],
) -> tuple[int, bytes]:
    link.connect(sock, reader)
    try:
        request = pickle.loads(order["request"])
        layers = [core.compiled(name, policy, lazy=True) for name, policy in order["layers"]]
        give_up(order["walls"], spaces)
    except BaseException as error:
        return UNCONFINED, passing.passed_error(error)
    scope = core.base.plus(*layers)
    link.layers = scope.layers
    kernel = object.__new__(WorkerKernel)
    kernel._attach(core, scope, handler, order["posture"])
    try:
        with entered(core, scope):
            value = _handled(kernel, handler, request, order["backend"])
        return RESULT, passing.passed(value)
    except passing.Unpassable as error:
        return ERROR, passing.passed_error(ToolError("request", str(error)))
    except SystemExit as error:
        ended = ToolError("request", f"the handler exited ({error.code})")
        return ERROR, passing.passed_error(ended)
    except BaseException as error:
        return ERROR, passing.passed_error(error.with_traceback(_own(error, handler)))


def _own(error: BaseException, handler: Any) -> TracebackType | None:
    """The traceback from the handler on."""
    trace = error.__traceback__
    code = getattr(handler, "__code__", None)
    while trace is not None and trace.tb_frame.f_code is not code:
        trace = trace.tb_next
    return trace or error.__traceback__


def _handled(kernel: Kernel, handler: Any, request: Any, backend: str) -> Any:
    value = None
    if not inspect.iscoroutinefunction(handler):
        value = handler(kernel, request)
        if not inspect.isawaitable(value):
            return value
    kept: list[Any] = []  # asyncio.run() looks at what its task returns, by repr()

    async def run() -> None:
        kept.append(await (handler(kernel, request) if value is None else value))

    anyio.run(run, backend=backend)
    return kept[0]


class _Link:
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


class _Audit:
    """The kernel's log, from inside; see :class:`axonkernel.audit.AuditSink`."""

    def __init__(self, link: _Link) -> None:
        self._link = link

    def record(self, kind: str, /, **fields: Any) -> str:
        """Store one record outside. Raises AuditError when it cannot be."""
        return str(self._link.ask("record", kind, fields))


class _Nobody:
    """Nobody is asked from here: what has to be asked is asked outside."""

    async def ask(self, question: Any) -> Any:
        """Never called."""
        raise AssertionError(question)

    def ask_sync(self, question: Any) -> Any:
        """Never called."""
        raise AssertionError(question)


class _Outside(Mediator):
    """Has requests judged outside."""

    def __init__(self, link: _Link, inner: Mediator) -> None:
        super().__init__(inner.audit, _Nobody(), "")
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
        """See :meth:`Mediator.refuse`."""
        denied: PolicyDenied = self.link.ask("refuse", request, decision)
        return denied


def _policies(scope: Scope, link: _Link) -> tuple[Policy, ...]:
    """What the handler itself narrows; what holds for the whole request is known outside."""
    return tuple(layer.policy for layer in scope.layers if layer not in link.layers)


class WorkerKernel(Kernel):
    """The kernel of a handler in a worker."""

    def _attach(self, core: Core, base: Scope, handler: Any, posture: Any) -> None:
        super()._attach(core, base, handler, posture)
        assert isinstance(core.mediator, _Outside)
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

    def __init__(self, link: _Link, scope: Any) -> None:
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

    def __init__(self, link: _Link, number: int, pid: int) -> None:
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
