"""An agent: its policy, its tools, its handler."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from axonkernel.errors import AxonError, PolicyError
from axonkernel.given import policy_from
from axonkernel.policy.model import Policy

if TYPE_CHECKING:
    from axonkernel.kernel import Handler, Kernel
    from axonkernel.kernel.core import AuditTarget
    from axonkernel.tools import ToolRegistry

__all__ = ["Agent", "define_agent"]

F = TypeVar("F", bound=Callable[..., Any])


class Agent:
    """What :func:`define_agent` returns.

    Attributes:
        name: for records and prompts.
        policy: parsed; ``declared`` is False when there was none.
        policy_data: as it was written, or None.
        base: the folder that relative paths count from.
        entry: the file that defines the agent, or None.
    """

    def __init__(
        self, name: str, policy: Mapping[str, Any] | Policy | None, base: str, entry: str | None
    ) -> None:
        self.name = name
        self.policy_data = policy
        self.policy: Policy = policy_from(policy, base)
        self.base = base
        self.entry = entry
        self._tools: ToolRegistry | None = None
        self._handler: Handler | None = None

    @property
    def tools(self) -> ToolRegistry:
        """Registered so far, the built-in ones included."""
        if self._tools is None:
            from axonkernel.tools import builtin_tools  # only a kernel calls them

            self._tools = builtin_tools()
        return self._tools

    def tool(self, name: str) -> Callable[[F], F]:
        """Register the decorated function as the tool ``name``.

        Parameters say what they touch: ``Annotated[str, ReadPath]``, ``WritePath``, ``Host``,
        ``Argv``, ``Secret``. One named ``kernel`` is given the kernel. The tool must open the
        path it is given, which is absolute with symlinks resolved.

        Raises PolicyError for a name that is taken or could be mistaken for another, and for
        a parameter that looks like a path and has no subject.
        """

        def register(function: F) -> F:
            self.tools.register(name, function)
            return function

        return register

    def handler(self, function: F) -> F:
        """Make the decorated function, of ``(kernel, request)``, what requests go to."""
        self._handler = function
        return function

    def kernel(
        self,
        *,
        layers: Iterable[tuple[str, Policy]] = (),
        audit: AuditTarget = None,
        **options: Any,
    ) -> Kernel:
        """A kernel for this agent in this process; ``options`` are those of ``Kernel``.

        Raises PolicyError where the policy has rules for tools that are not registered.
        """
        from axonkernel.kernel import Kernel  # what only supervises a box needs none

        self._refuse_unknown_tools()
        return Kernel(
            self.policy,
            cwd=options.pop("cwd", self.base),
            layers=layers,
            audit=audit,
            tools=self.tools,
            handler=self._handler,
            name=self.name,
            **options,
        )

    @asynccontextmanager
    async def open(self, **options: Any) -> AsyncIterator[Kernel]:
        """A kernel for application code; closed at the end of the block."""
        async with self.kernel(**options) as kernel:
            yield kernel

    def run(self) -> None:
        """Run the agent as a script: outside a box build it and supervise, inside serve.

        Ends the process, after one line on standard error, unless the handler returned: with
        1 when a call was denied, 125 when there is no box, 78 for a policy with faults.
        Application code that wants to go on uses :meth:`open`.
        """
        from axonkernel.supervisor import run_agent
        from axonkernel.supervisor.ended import told

        try:
            self._refuse_unknown_tools()
            code = run_agent(self)
        except (AxonError, KeyboardInterrupt) as error:
            raise SystemExit(told(error)) from error
        if code:
            sys.exit(code)

    def _refuse_unknown_tools(self) -> None:
        if self.policy.tools is None:
            return
        from axonkernel.policy.known import unknown_tools

        own = () if self._tools is None else (tool.name for tool in self._tools)
        if faults := unknown_tools(self.policy, own):
            raise PolicyError(faults, f"agent {self.name}")


def define_agent(
    name: str | None = None,
    policy: Mapping[str, Any] | Policy | None = None,
    *,
    handler: Handler | None = None,
    base: str | os.PathLike[str] | None = None,
) -> Agent:
    """Declare an agent and what it may do.

    Arguments:
        name: for records and prompts; the defining file's name when None.
        policy: a mapping of the blocks that docs/policy.md describes. None is unrestricted
            access, which the posture says.
        handler: a function of ``(kernel, request)``; or use ``@agent.handler``.
        base: folder that relative paths count from; the defining file's when None.

    Raises PolicyError with every fault of the policy. In a file that runs as a script, an error
    of ours that nothing catches is told in plain words instead of a traceback, and the script
    ends with the error's exit code: 78 for a policy with faults.
    """
    caller = sys._getframe(1).f_globals
    entry = caller.get("__file__")
    if entry is not None and caller.get("__name__") == "__main__":
        _end_plainly()
    file = os.path.realpath(entry) if isinstance(entry, str) else None
    folder = os.path.dirname(file) if file is not None else os.getcwd()
    if base is not None:
        folder = os.path.realpath(base)
    called = os.path.basename(file).removesuffix(".py") if file is not None else "agent"
    agent = Agent(name if name is not None else called, policy, folder, file)
    if handler is not None:
        agent.handler(handler)
    return agent


def _end_plainly() -> None:
    """Let an uncaught error of ours end this script without a traceback.

    A hook that somebody else has set stays; all other exceptions are shown as ever.
    """
    if sys.excepthook is not sys.__excepthook__:
        return

    def hook(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        debug = os.environ.get("AXON_DEBUG", "") not in ("", "0")
        if debug or not isinstance(error, AxonError):
            sys.__excepthook__(kind, error, trace)
        if isinstance(error, AxonError):
            sys.stderr.write(f"axonkernel: {error}\n")
            raise SystemExit(error.exit_code)

    sys.excepthook = hook
