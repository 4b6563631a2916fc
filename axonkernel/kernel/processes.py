"""``kernel.process``: programs, judged word by word and run as they were judged."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

import anyio
import anyio.to_thread
from attrs import frozen

from axonkernel.blocks import BASH_ENVIRONMENT, bash_words, foreign_locale
from axonkernel.errors import AxonError, LimitExceeded, ToolError
from axonkernel.paths import resolve
from axonkernel.policy.match import needs_shell, split_words
from axonkernel.policy.request import Decision, ProcessRequest, ShellRequest
from axonkernel.policy.wellformed import malformed_name, unencodable
from axonkernel.process import Call, Located, Place, ProcessResult, Start, needs_box
from axonkernel.telemetry import tool_span

if TYPE_CHECKING:
    from axonkernel.kernel.core import Core
    from axonkernel.kernel.scope import Scope

__all__ = ["Processes", "Spawned"]

Command = str | Iterable[str]
Env = Mapping[str, str] | None


@frozen
class _Plan:
    """A program call before its decision: the request, and what runs when it is allowed."""

    request: ProcessRequest | ShellRequest
    program: Located
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str


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
            plan = self._plan(command, scope, raw=raw, cwd=cwd, env=env, spawn=False)
            identity = await self._core.mediator.require(plan.request, scope, plan.env)
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
            plan = self._plan(command, scope, raw=raw, cwd=cwd, env=env, spawn=False)
            identity = self._core.mediator.require_sync(plan.request, scope, plan.env)
            return self._run(self._call(plan, scope, input, timeout), identity)

    async def spawn(
        self, command: Command, *, raw: bool = False, cwd: str = ".", env: Env = None
    ) -> Spawned:
        """Start a program that goes on while the caller does; it ends with the kernel.

        Raises as :meth:`run` does; ``shell.spawn`` must allow one more.
        """
        with tool_span("process.spawn"):
            scope = self._scope()
            plan = self._plan(command, scope, raw=raw, cwd=cwd, env=env, spawn=True)
            await self._core.mediator.require(plan.request, scope, plan.env)
            call = self._call(plan, scope, None, None)
            return await anyio.to_thread.run_sync(self._spawned, call)

    def spawn_sync(
        self, command: Command, *, raw: bool = False, cwd: str = ".", env: Env = None
    ) -> Spawned:
        """:meth:`spawn` for code without an event loop."""
        with tool_span("process.spawn"):
            scope = self._scope()
            plan = self._plan(command, scope, raw=raw, cwd=cwd, env=env, spawn=True)
            self._core.mediator.require_sync(plan.request, scope, plan.env)
            return self._spawned(self._call(plan, scope, None, None))

    async def start(
        self,
        plan: _Plan,
        scope: Scope,
        identity: str,
        data: bytes | None,
        timeout_s: float | None,
    ) -> ProcessResult:
        """Run a program that has been let through, in a thread; cancelling ends it."""
        call = self._call(plan, scope, data, timeout_s)
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

    def fixed(self, argv: tuple[str, ...]) -> _Plan:
        """A program of our own choice, such as the interpreter of a block."""
        located = Located(argv[0], resolve(argv[0]))
        request = ProcessRequest(argv, self._core.cwd, resolved=located.file)
        return _Plan(request, located, argv, {}, self._core.cwd)

    def line(self, text: str, *, cwd: str = ".", env: Env = None, spawn: bool = False) -> _Plan:
        """A line for bash. Raises PolicyDenied where there is no bash to run it."""
        folder = resolve(cwd, self._core.cwd)
        names = tuple(sorted(env or ()))
        request = self._core.canonical(ShellRequest(text, folder, spawn, names))
        assert isinstance(request, ShellRequest)
        located = self._core.lookup.find("bash", folder)
        if located.file is None:
            detail = "there is no bash, the one shell whose lines are judged"
            raise self._refused(request, "shell.raw", detail)
        self._refuse_bad_env(request, env)
        return _Plan(request, located, bash_words(text), dict(env or {}), folder)

    def _plan(
        self, command: Command, scope: Scope, *, raw: bool, cwd: str, env: Env, spawn: bool
    ) -> _Plan:
        if isinstance(command, str):
            if raw and (needs_shell(command) or scope.policy.shell is None):
                line = self.line(command, cwd=cwd, env=env, spawn=spawn)
                if spawn:
                    self._refuse_one_too_many(line.request, scope)
                return line
            # Plain words run as words also where a shell would be allowed: their program is
            # found, judged and run as one file.
            argv = self._split(command, cwd)
        else:
            argv = tuple(str.__str__(word) for word in command)
        folder = resolve(cwd, self._core.cwd)
        located = self._core.lookup.find(argv[0], folder) if argv else Located("", None)
        names = tuple(sorted(env or ()))
        request = ProcessRequest(argv, folder, spawn, names, located.file)
        self._refuse_bad_env(request, env)
        if spawn:
            self._refuse_one_too_many(request, scope)
        return _Plan(request, located, argv, dict(env or {}), folder)

    def _split(self, text: str, cwd: str) -> tuple[str, ...]:
        if needs_shell(text):
            request = ShellRequest(text, resolve(cwd, self._core.cwd))
            raise self._refused(request, "shell.raw", "the call did not ask for a shell (raw)")
        return split_words(text)

    def _refuse_bad_env(self, request: ProcessRequest | ShellRequest, env: Env) -> None:
        for name, value in (env or {}).items():
            if malformed_name(name) or "\0" in value or unencodable(value):
                raise self._refused(request, "request.malformed", "a variable is not well formed")

    def _refuse_one_too_many(self, request: ProcessRequest | ShellRequest, scope: Scope) -> None:
        shell = scope.policy.shell
        cap = shell.spawn if shell is not None else None
        if cap and len(self._core.closing) >= cap:
            raise self._refused(request, "shell.spawn", f"{cap} processes are running already")

    def _refused(self, request: ProcessRequest | ShellRequest, code: str, why: str) -> AxonError:
        decision = Decision("deny", code, "$.shell", "builtin", detail=why)
        return self._core.mediator.refuse(request, decision)

    def _call(self, plan: _Plan, scope: Scope, data: bytes | None, timeout_s: float | None) -> Call:
        policy = scope.policy
        boxed = needs_box(policy, inside=self._core.inside)
        start = Start(
            argv=plan.argv,
            program=plan.program,
            cwd=plan.cwd,
            env=plan.env,
            without_env=self._not_for_bash(plan),
            stays=policy.shell is None or policy.shell.spawn != 0,
        )
        launcher = self._core.launcher() if boxed else None
        # Children look for programs where the judged name was looked for.
        path = self._core.lookup.path if policy.shell is not None else ()
        return Call(start, Place(policy, launcher, self._core.environ, path), data, timeout_s)

    def _not_for_bash(self, plan: _Plan) -> tuple[str, ...]:
        """What would make bash read a line in another way than it was judged."""
        if not isinstance(plan.request, ShellRequest):
            return ()
        locale = foreign_locale({**self._core.environ, **plan.env})
        return BASH_ENVIRONMENT if plan.request.line.isascii() else (*BASH_ENVIRONMENT, *locale)

    def _run(self, call: Call, identity: str) -> ProcessResult:
        try:
            result = call.run()
        except AxonError as error:
            if isinstance(error, LimitExceeded):
                error.decision_id = identity
            self._core.audit.record(
                "process.failed",
                decision_id=identity,
                error=type(error).__name__,
                message=str(error),
            )
            raise
        self._core.audit.record(
            "process.ended",
            decision_id=identity,
            exit_code=result.exit_code,
            held_by=result.held_by,
            net_denied=result.net_denied,
        )
        return result

    def _spawned(self, call: Call) -> Spawned:
        refused = call.start()
        if refused is not None:
            raise ToolError("process.spawn", refused.error_text.strip())
        return Spawned(call, self._core.closing)


class Spawned:
    """A program that runs beside the caller, its output kept up to the ``output`` limit."""

    def __init__(self, call: Call, closing: list[Callable[[], None]]) -> None:
        self._call = call
        self._closing = closing
        self._result: ProcessResult | None = None
        self._error: Exception | None = None
        closing.append(self.kill)
        self._thread = threading.Thread(target=self._finish, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Its process id, as this process sees it."""
        return self._call.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._thread.is_alive()

    def kill(self) -> None:
        """End it and everything it started, and wait until that is done."""
        self._call.cancel()
        self._thread.join()

    async def wait(self) -> ProcessResult:
        """Wait for its end. Raises LimitExceeded when a limit ended it."""
        return await anyio.to_thread.run_sync(
            self.wait_sync, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )

    def wait_sync(self) -> ProcessResult:
        """:meth:`wait` for code without an event loop."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _finish(self) -> None:
        try:
            self._result = self._call.finish()
        except Exception as error:
            self._error = error
        finally:
            if self.kill in self._closing:
                self._closing.remove(self.kill)
