"""The kernel: the only one who can take what the capsule asks for."""

from __future__ import annotations

import inspect
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from attrs import evolve

from axonkernel.blocks import block_of
from axonkernel.errors import Fault, PolicyError, ToolError
from axonkernel.given import PolicyLike, policy_from
from axonkernel.kernel.calls import bind, failures
from axonkernel.kernel.core import AuditTarget, Core
from axonkernel.kernel.origin import Origin
from axonkernel.kernel.posture import posture_of
from axonkernel.kernel.processes import Processes
from axonkernel.kernel.scope import Scope, active, entered
from axonkernel.kernel.unrestricted import tell_or_refuse
from axonkernel.kernel.walls import has_broker, has_landlock, walls_of
from axonkernel.kernel.workers import Confine, Road, Workers
from axonkernel.policy.model import Policy
from axonkernel.policy.request import AnyRequest, Decision, Request, strictest
from axonkernel.process import ProcessResult, needs_box
from axonkernel.telemetry import tool_span
from axonkernel.tools import Tool, ToolRegistry, builtin_tools
from axonkernel.tools.tool import BoundCall

if TYPE_CHECKING:
    from axonkernel.box.model import PostureField, Refusal
    from axonkernel.escalation import Asker, Broker, Decider
    from axonkernel.kernel.job import Job
    from axonkernel.policy.explain import Explanation

__all__ = ["Handler", "Kernel"]

Handler = Callable[["Kernel", Any], Awaitable[Any] | Any]


class Kernel:
    """Checks every call against a policy before anything executes.

    By itself it mediates inside this process: its tools have the checkpoint only, while each
    program that ``process.run`` starts gets, on Linux and with OS fields declared, a box of
    its own. :meth:`posture` says which.

    Arguments:
        policy: a parsed policy, the same as data (relative paths count from ``cwd``), or
            None, which is unrestricted access: told once on standard error, and refused
            where AXON_REQUIRE_POLICY is set.
        cwd: where relative paths of calls count from; the working directory when None.
        layers: (name, policy) pairs met with it, such as a machine profile.
        audit: a file, or a sink of its own; the user's own log when None.
        deciders: ways to reach a person; without any, escalations fail closed.
        asker: takes escalations elsewhere, in place of ``deciders``.
        launcher: starts the boxes of calls; one is made at need when None.
        tools: the agent's tools; only the built-in ones when None.
        handler: what :meth:`request` calls.
        name: the agent's, for records and prompts.
        boxed: what the box around this process grants (``BoxGrants``); None outside one.
        posture: rows to report, when somebody else made the box around this process.
        clock: monotonic seconds, for escalations.
        refused: what the box around this process was refused on the network since a moment
            (seconds since 1970); None outside one.
        confine: what holds narrowed requests: ``worker`` (a process of their own, which the
            operating system holds; on Linux) or ``mediator``.
        origin: where workers find the handler and the tools; looked for when None.

    Raises PolicyError for a policy with faults, or where one is required and missing.
    """

    def __init__(
        self,
        policy: PolicyLike = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        layers: Iterable[tuple[str, Policy]] = (),
        audit: AuditTarget = None,
        deciders: Iterable[Decider] = (),
        asker: Asker | None = None,
        launcher: Any = None,
        tools: ToolRegistry | None = None,
        handler: Handler | None = None,
        name: str = "agent",
        boxed: Any = None,
        posture: tuple[PostureField, ...] | None = None,
        clock: Callable[[], float] = time.monotonic,
        refused: Callable[[float], tuple[Refusal, ...]] | None = None,
        confine: Confine = "worker",
        origin: Origin | None = None,
    ) -> None:
        folder = os.path.realpath(os.fspath(cwd) if cwd is not None else os.getcwd())
        policies = (*layers, ("policy", policy_from(policy, folder)))
        if boxed is None and posture is None:  # else whoever gave them has told
            tell_or_refuse(each for _, each in policies)
        core = Core(
            policies,
            cwd=folder,
            audit=audit,
            deciders=deciders,
            asker=asker,
            launcher=launcher,
            tools=builtin_tools() if tools is None else tools,
            name=name,
            boxed=boxed,
            clock=clock,
        )
        core.refused = refused
        core.posture = posture or ()
        core.workers = Workers(core, handler, origin, confine)
        self._attach(core, core.base, handler, posture)

    def _attach(
        self,
        core: Core,
        base: Scope,
        handler: Handler | None,
        posture: tuple[PostureField, ...] | None,
    ) -> None:
        self._core = core
        self._base = base
        self._handler = handler
        self._posture = posture
        self.process = Processes(core, self._scope)

    @property
    def policy(self) -> Policy:
        """What holds here and now, all layers and narrowings met."""
        return self._scope().policy

    @property
    def is_inside(self) -> bool:
        """Whether this is an agent's process in its box, which holds what it connects to."""
        return self._core.inside

    @property
    def tools(self) -> ToolRegistry:
        """The tools that :meth:`call` knows."""
        return self._core.tools

    @property
    def broker(self) -> Broker | None:
        """Where escalations wait; None when an ``asker`` was given."""
        return self._core.broker

    def check(self, request: AnyRequest) -> Decision:
        """The decision about ``request`` as it would be made now, with the walls that would
        stand around it. Nothing runs or is asked."""
        canonical = self._core.canonical(request)
        decision = self.decide(canonical)
        misfit = self._core.canonical.misfit(request)
        if misfit is not None:
            decision = strictest((decision, misfit))
        return evolve(decision, walls=self._walls(canonical))

    def decide(self, request: AnyRequest) -> Decision:
        """:meth:`check` for a request that is canonical already."""
        return self._scope().decide(request)

    async def require(self, request: AnyRequest) -> None:
        """Return when ``request`` may run here and now; recorded, and asked about where the
        policy says so. For tools that learn what they touch only while they run, such as
        where a redirect leads.

        Raises:
            PolicyDenied, EscalationDenied: it may not.
        """
        await self._core.mediator.require(self._core.canonical(request), self._scope())

    def require_sync(self, request: AnyRequest) -> None:
        """:meth:`require` for code without an event loop."""
        self._core.mediator.require_sync(self._core.canonical(request), self._scope())

    def explain(self, request: AnyRequest) -> Explanation:
        """Why ``request`` is decided as it is; for the operator, never for the agent."""
        from axonkernel.policy.explain import explain

        canonical = self._core.canonical(request)
        explained = explain(self._scope().stack, canonical)
        misfit = self._core.canonical.misfit(request)
        if misfit is not None:
            explained = explained.denied(misfit)
        return explained.within(self._walls(canonical))

    def _walls(self, canonical: AnyRequest) -> tuple[str, ...]:
        core, policy = self._core, self._scope().policy
        return walls_of(
            canonical,
            policy,
            core.policy,
            inside=core.inside,
            boxed=needs_box(policy, inside=core.inside),
            landlock=has_landlock(),
            brokered=core.brokered,
            broker=core.inside and has_broker(),
        )

    def posture(self) -> tuple[PostureField, ...]:
        """Which declared field is held by what, in this kernel."""
        if self._posture is not None:
            return self._posture
        return posture_of(self.policy, inside=self._core.inside)

    async def call(self, name: str, /, **args: Any) -> Any:
        """Call the tool ``name``.

        Raises:
            PolicyDenied, EscalationDenied: it may not run, and did not.
            ToolError: there is no such tool, the arguments do not fit, or it failed.
            AuditError: the decision cannot be recorded, so it did not run.
        """
        with tool_span(name):
            scope = self._scope()
            tool, bound, misfit = bind(self._core, name, args)
            await self._core.mediator.require(bound.request, scope)
            if tool is None or misfit is not None:
                raise misfit or ToolError(name, "there is no tool of this name")
            with failures(name):
                if tool.is_async:
                    return await self._invoke(tool, bound)
                return await anyio.to_thread.run_sync(partial(self._invoke, tool, bound))

    def call_sync(self, name: str, /, **args: Any) -> Any:
        """:meth:`call` for code without an event loop."""
        with tool_span(name):
            scope = self._scope()
            tool, bound, misfit = bind(self._core, name, args)
            self._core.mediator.require_sync(bound.request, scope)
            if tool is None or misfit is not None:
                raise misfit or ToolError(name, "there is no tool of this name")
            with failures(name):
                call = partial(self._invoke, tool, bound)
                return anyio.run(call) if tool.is_async else call()

    async def run_block(
        self, kind: str, source: str, *, timeout: float | None = None
    ) -> ProcessResult:
        """Run a block of code a model wrote: ``bash`` or ``python``.

        It is gated as the tool ``block.KIND``; the shell rules judge bash as well. Python
        runs in a fresh interpreter, behind the walls of a program, with a ``kernel`` of its
        own: ``kernel.call(NAME, ...)`` and ``kernel.process.run(...)`` are judged here, and
        what is denied raises PolicyDenied in the block.

        Arguments:
            timeout: seconds; then everything the block started is killed.

        Raises as ``process.run`` does; ToolError for a kind this version cannot run.
        """
        block = block_of(kind, source)
        scope = self._scope()
        require = self._core.mediator.require
        with tool_span(block.tool):
            identity = await require(Request.tool(block.tool, {"source": source}), scope)
            if block.line is not None:
                return await self.process.run(block.line, raw=True, timeout=timeout)
            if block.source is None:
                raise ToolError(block.tool, "the WASM layer is not built into this version")
            from axonkernel.kernel.block_outside import run

            return await run(self, block.source, scope, identity, timeout)

    def run_block_sync(
        self, kind: str, source: str, *, timeout: float | None = None
    ) -> ProcessResult:
        """:meth:`run_block` for code without an event loop."""
        return anyio.run(partial(self.run_block, kind, source, timeout=timeout))

    @contextmanager
    def narrow(
        self, policy: Policy | Mapping[str, Any], *, strict: bool = False
    ) -> Iterator[Kernel]:
        """Let ``policy`` hold as well until the end of the block, in the mediator.

        Asking for more than the base grants is clamped and recorded.

        Arguments:
            strict: raise PolicyError instead of clamping.
        """
        view = self._narrowed(policy, strict)
        with entered(self._core, view._base):
            yield view

    async def request(
        self,
        request: Any,
        policy: Policy | Mapping[str, Any] | None = None,
        *,
        strict: bool = False,
        confine: Confine | None = None,
    ) -> Any:
        """Hand ``request`` to the agent's handler, under ``policy`` as well if given.

        The narrowing goes with the context and the kernel the handler gets, and ends with
        the call: on return, error, cancellation and timeout alike. Where it is about files,
        network, programs, variables or limits, the handler runs in a worker, a process that
        has lost what is not granted before its first line; ``request``, what the handler
        returns and what it raises go from one to the other by value.

        Arguments:
            confine: ``mediator`` has it run here all the same; the kernel's own when None.

        Raises what the handler raises; ToolError when there is no handler, or when what it
        returns cannot leave a worker; PolicyError for a handler that a worker cannot import;
        IsolationUnavailable for what nothing can hold here; LimitExceeded.
        """
        handler = self._demand_handler()
        view = self if policy is None else self._narrowed(policy, strict)
        if (job := await view._job(request, confine)) is not None:
            return await job.run_async()
        with entered(self._core, view._scope()):
            if inspect.iscoroutinefunction(handler):
                return await handler(view, request)
            call = partial(handler, view, request)
            result = await anyio.to_thread.run_sync(call)
            return await result if inspect.isawaitable(result) else result

    def request_sync(
        self,
        request: Any,
        policy: Policy | Mapping[str, Any] | None = None,
        *,
        strict: bool = False,
        confine: Confine | None = None,
    ) -> Any:
        """:meth:`request` for code without an event loop."""
        kept: list[Any] = []  # asyncio.run() looks at what its task returns, by repr()

        async def run() -> None:
            kept.append(await self.request(request, policy, strict=strict, confine=confine))

        anyio.run(run)
        return kept[0]

    def request_posture(
        self,
        policy: Policy | Mapping[str, Any] | None = None,
        *,
        confine: Confine | None = None,
    ) -> tuple[PostureField, ...]:
        """What would hold during a request under ``policy``; nothing runs.

        The first row, ``request``, says by which road: ``namespaces``, ``landlock`` or
        ``mediator``. Raises as :meth:`request` does for what nothing can hold here.
        """
        self._demand_handler()
        view = self if policy is None else self._narrowed(policy, False)
        road = view._road(confine)
        return view.posture() if road is None else road.posture

    def _demand_handler(self) -> Handler:
        if self._handler is None:
            raise ToolError("request", "this kernel has no handler: Kernel(policy, handler=...)")
        return self._handler

    def _road(self, confine: Confine | None) -> Road | None:
        workers = self._core.workers
        return None if workers is None else workers.road(self._scope(), confine)

    async def _job(self, request: Any, confine: Confine | None) -> Job | None:
        """The request as a job for a worker, recorded; None where it runs here."""
        workers = self._core.workers
        if workers is None or not workers.concerns(self._scope()):
            return None
        # The first one starts a process, and a grant may have to be looked through.
        road = await anyio.to_thread.run_sync(self._road, confine, limiter=anyio.CapacityLimiter(1))
        if road is None:
            return None
        rows = [list(row) for row in road.posture]
        self._core.audit.record("request.walls", road=road.posture[0].by, posture=rows)
        if road.planned is None:
            return None
        from axonkernel.kernel.job import Job, current_backend  # only for narrowed requests

        return Job(self._pinned(), road.planned, request, current_backend())

    def _pinned(self) -> Kernel:
        """This view with what the context adds, for where there is no context."""
        view = object.__new__(type(self))
        view._attach(self._core, self._scope(), self._handler, self._posture)
        return view

    def close(self) -> None:
        """Deny what waits for an answer and end every spawned program."""
        self._core.close()

    def __enter__(self) -> Kernel:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    async def __aenter__(self) -> Kernel:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(self.close)

    def _scope(self) -> Scope:
        """This view's layers, and those that the context adds."""
        here = active(self._core)
        return self._base if here is None else here.plus(*self._base.layers)

    def _narrowed(self, policy: Policy | Mapping[str, Any], strict: bool) -> Kernel:
        scope = self._scope()
        asked = policy_from(policy, self._core.cwd)
        narrowed, lines = self._core.narrowings.of(scope, asked)
        self._note_clamped(lines, strict)
        view = object.__new__(type(self))
        view._attach(self._core, narrowed, self._handler, self._posture)
        return view

    def _note_clamped(self, lines: tuple[str, ...], strict: bool) -> None:
        if lines and strict:
            faults = [
                Fault("$", line, hint="ask for no more than the base grants") for line in lines
            ]
            raise PolicyError(faults, "narrowing")
        if lines:
            self._core.audit.record("narrowing.clamped", lines=list(lines))

    def _invoke(self, tool: Tool, bound: BoundCall) -> Any:
        extra = {"kernel": self} if tool.takes_kernel else {}
        return tool.function(**bound.arguments, **extra)
