"""``kernel.process``: programs, judged word by word and run as they were judged."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
from attrs import asdict, evolve

from axonkernel.blocks import BASH_ENVIRONMENT, foreign_locale
from axonkernel.errors import AxonError, LimitExceeded, ToolError
from axonkernel.kernel.plans import Command, Env, Plan, Plans
from axonkernel.kernel.spawned import Spawned
from axonkernel.kernel.walls import has_to_end, held_around, needs_confining, takes_part
from axonkernel.policy.request import ProcessRequest, ShellRequest
from axonkernel.process import Call, Place, ProcessResult, Start, needs_box
from axonkernel.telemetry import tell_events, tool_span

if TYPE_CHECKING:
    from axonkernel.box.model import NetPlan
    from axonkernel.drops import Drops
    from axonkernel.kernel.core import Core
    from axonkernel.kernel.scope import Scope
    from axonkernel.policy.model import Policy
    from axonkernel.process.start import Terms

__all__ = ["Processes"]


class Processes:
    """Runs programs under the policy. Got as ``kernel.process``.

    Arguments of all methods:
        command: the words of a program; or one line, split by POSIX quoting rules and
            refused when it needs a shell, unless ``raw``.
        raw: run a line that needs a shell in bash, if the policy has ``shell.raw`` and allows
            every command in it.
        cwd: working directory; relative paths count from the kernel's.
        env: variables to set for the program; each name is judged.
        input: standard input, which is otherwise empty.
        timeout: seconds; then everything the call started is killed.
    """

    def __init__(self, core: Core, scope: Callable[[], Scope]) -> None:
        self._core = core
        self._scope = scope
        self.plans = Plans(core)

    async def run(
        self,
        command: Command,
        *,
        raw: bool = False,
        cwd: str = ".",
        env: Env = None,
        input: bytes | None = None,
        timeout: float | None = None,
    ) -> ProcessResult:
        """Run a program to its end.

        Raises:
            PolicyDenied, EscalationDenied: it may not run, and did not.
            LimitExceeded: a limit or the timeout ended it.
            IsolationUnavailable, BoxError: its box could not be built; it did not run.
        """
        with tool_span("process.run"):
            scope = self._scope()
            plan = self.plans.of(command, scope, raw=raw, cwd=cwd, env=env, spawn=False)
            identity = await self._core.mediator.require(
                plan.request, scope, plan.env, leave=self._leaves(plan)
            )
            return await self.start(plan, scope, identity, input, timeout)

    def run_sync(
        self,
        command: Command,
        *,
        raw: bool = False,
        cwd: str = ".",
        env: Env = None,
        input: bytes | None = None,
        timeout: float | None = None,
    ) -> ProcessResult:
        """:meth:`run` for code without an event loop."""
        with tool_span("process.run"):
            scope = self._scope()
            plan = self.plans.of(command, scope, raw=raw, cwd=cwd, env=env, spawn=False)
            identity = self._core.mediator.require_sync(
                plan.request, scope, plan.env, leave=self._leaves(plan)
            )
            return self._run(self._call(plan, scope, identity, input, timeout), identity)

    async def spawn(
        self, command: Command, *, raw: bool = False, cwd: str = ".", env: Env = None
    ) -> Spawned:
        """Start a program that goes on while the caller does; it ends with the kernel.

        The ports of ``net.listen`` lead to it, not to the programs of :meth:`run`. While they
        lead to one, a second that is started cannot have them and ends with BoxError.

        Raises as :meth:`run` does; ``shell.spawn`` must allow one more.
        """
        with tool_span("process.spawn"):
            scope = self._scope()
            plan = self.plans.of(command, scope, raw=raw, cwd=cwd, env=env, spawn=True)
            identity = await self._core.mediator.require(
                plan.request, scope, plan.env, leave=self._leaves(plan)
            )
            call = self._call(plan, scope, identity, None, None)
            return await anyio.to_thread.run_sync(self._spawned, call)

    def spawn_sync(
        self, command: Command, *, raw: bool = False, cwd: str = ".", env: Env = None
    ) -> Spawned:
        """:meth:`spawn` for code without an event loop."""
        with tool_span("process.spawn"):
            scope = self._scope()
            plan = self.plans.of(command, scope, raw=raw, cwd=cwd, env=env, spawn=True)
            identity = self._core.mediator.require_sync(
                plan.request, scope, plan.env, leave=self._leaves(plan)
            )
            return self._spawned(self._call(plan, scope, identity, None, None))

    async def start(
        self,
        plan: Plan,
        scope: Scope,
        identity: str,
        data: bytes | None,
        timeout_s: float | None,
    ) -> ProcessResult:
        """Run a program that has been let through, in a thread; cancelling ends it."""
        call = self._call(plan, scope, identity, data, timeout_s)
        try:
            return await anyio.to_thread.run_sync(
                self._run,
                call,
                identity,
                abandon_on_cancel=True,
                # Waiting programs must not use up the threads that others share.
                limiter=anyio.CapacityLimiter(1),
            )
        except anyio.get_cancelled_exc_class():
            call.cancel()
            raise

    def _call(
        self,
        plan: Plan,
        scope: Scope,
        identity: str,
        data: bytes | None,
        timeout_s: float | None,
    ) -> Call:
        if timeout_s is not None and not _is_time(timeout_s):
            raise ToolError("process", f"timeout is a number of seconds, not {timeout_s!r}")
        policy = scope.policy
        boxed = needs_box(policy, inside=self._core.inside)
        start = Start(
            argv=plan.argv,
            program=plan.program,
            cwd=plan.cwd,
            env=plan.env,
            without_env=self._not_for_bash(plan),
            stays=not has_to_end(policy),
            channel=plan.channel,
        )
        return Call(start, self._place(plan, scope, boxed, identity), data, timeout_s)

    def _leaves(self, plan: Plan) -> bool:
        """Whether the supervisor asks about a call: it asks by the rules of the whole agent,
        not by those of a narrowed request."""
        core = self._core
        elsewhere = plan.program.file in core.brokered
        elsewhere |= self._narrowed(plan, self._scope().policy) is not None
        if not elsewhere or not isinstance(plan.request, ProcessRequest):
            return False
        return core.base.decide(plan.request).verdict == "escalate"

    def _place(self, plan: Plan, scope: Scope, boxed: bool, identity: str) -> Place:
        core, policy = self._core, scope.policy
        # A block of code a model wrote is not run beside the agent itself.
        confined = core.inside and plan.channel >= 0
        confined |= needs_confining(policy, core.policy, inside=core.inside)
        guarded = sys.platform == "linux" and not boxed and (confined or has_to_end(policy))
        return Place(
            policy if plan.request.spawn else _without_ports(policy),
            core.launcher() if boxed else None,
            core.environ,
            # Children look for programs where the judged name was looked for.
            core.lookup.path if policy.shell is not None else (),
            confiner=core.confiner() if guarded else None,
            confined=confined,
            terms=partial(_terms, core, scope) if core.inside else None,
            around=held_around(policy, core.policy, core.posture) if core.inside else (),
            drops=partial(_drops, core, identity) if boxed else None,
            brokered=core.brokered,
            narrowed=self._narrowed(plan, policy),
        )

    def _narrowed(self, plan: Plan, policy: Policy) -> dict[str, Any] | None:
        """What the supervisor of this box is told to hold for the program; None where the
        program runs in this box."""
        core = self._core
        if not core.inside or plan.channel >= 0:
            return None
        elsewhere = plan.program.file in core.brokered
        elsewhere &= needs_confining(policy, core.policy, inside=True)
        if not elsewhere and not takes_part(policy, core.policy):
            return None
        from axonkernel.broker.wire import BROKER_SOCKET
        from axonkernel.policy.parse import unparse

        return unparse(policy) if os.path.exists(BROKER_SOCKET) else None

    def _not_for_bash(self, plan: Plan) -> tuple[str, ...]:
        """What would make bash read a line in another way than it was judged."""
        if not isinstance(plan.request, ShellRequest):
            return ()
        locale = foreign_locale({**self._core.environ, **plan.env})
        return BASH_ENVIRONMENT if plan.request.line.isascii() else (*BASH_ENVIRONMENT, *locale)

    def _run(self, call: Call, identity: str) -> ProcessResult:
        began_s = time.time()
        try:
            result = call.run()
        except AxonError as error:
            limit: dict[str, object] = {}
            if isinstance(error, LimitExceeded):
                error.decision_id = identity
                limit = {"limit": error.kind, "most": error.limit, "peak": error.peak}
            self._core.audit.record(
                "process.failed",
                decision_id=identity,
                error=type(error).__name__,
                message=str(error),
                **limit,
            )
            raise
        # Who has no network at all is only asked about when something went wrong.
        if self._core.refused is not None and (not result.ok or self._is_linked()):
            here = self._core.refused(began_s)
            result = evolve(result, net_denied=(*result.net_denied, *here))
        if result.net_denied and not result.ok:
            from axonkernel.box.remarks import refusals

            note = f"refused on the network: {refusals(result.net_denied)}"
            result = evolve(result, notes=(*result.notes, note))
        refused = [each._asdict() for each in result.net_denied]
        tell_events("net.drop", refused)
        self._core.audit.record(
            "process.ended",
            decision_id=identity,
            exit_code=result.exit_code,
            held_by=result.held_by,
            walls=result.walls,
            net_denied=refused,
            kept=result.kept,
            **asdict(result.used),
        )
        return result

    def _is_linked(self) -> bool:
        net = self._core.policy.net
        return net is None or bool(net.allow or net.escalate)

    def _spawned(self, call: Call) -> Spawned:
        refused = call.start()
        if refused is not None:
            raise ToolError("process.spawn", refused.error_text.strip())
        return Spawned(call, self._core.closing)


def _without_ports(policy: Policy) -> Policy:
    """``policy`` for a program that runs to its end: several do at once, and a port of the host
    leads to one box."""
    if policy.net is None or not policy.net.listen:
        return policy
    return evolve(policy, net=evolve(policy.net, listen=()))


def _terms(core: Core, scope: Scope, start: Start, place: Place) -> Terms:
    """How a program is confined in the box around this process."""
    from axonkernel.kernel.terms import terms_in_box

    return terms_in_box(core, scope, start, place)


def _drops(core: Core, identity: str, net: NetPlan | None) -> Drops:
    """What takes the refusals of the box of one call."""
    from axonkernel.drops import Asking, Drops

    asking = Asking(core.mediator.ask)
    return Drops(core.audit, core.mediator.agent, net, asking, decision_id=identity)


def _is_time(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
