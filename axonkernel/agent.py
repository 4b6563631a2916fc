"""An agent: its policy, its tools, its handler."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

from axonkernel.errors import AxonError, PolicyError
from axonkernel.given import policy_from
from axonkernel.policy.model import Policy

if TYPE_CHECKING:
    from axonkernel.kernel import Handler, Kernel
    from axonkernel.kernel.core import AuditTarget
    from axonkernel.kernel.origin import Origin
    from axonkernel.kernel.workers import Confine
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
        self,
        name: str,
        policy: Mapping[str, Any] | Policy | None,
        base: str,
        entry: str | None,
        *,
        confine: Confine = "worker",
        space: Mapping[str, Any] | None = None,
    ) -> None:
        self.name = name
        self.confine: Confine = confine
        self._space = {} if space is None else space  # of the module that defines it
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

        self._refuse_in_worker("a kernel is made")
        self._refuse_unknown_tools()
        if "origin" not in options:
            with suppress(PolicyError):  # told by open() and run(), or by who needs it
                options["origin"] = self._origin()
        return Kernel(
            self.policy,
            cwd=options.pop("cwd", self.base),
            layers=layers,
            audit=audit,
            tools=self.tools,
            handler=self._handler,
            name=self.name,
            **{"confine": self.confine, **options},
        )

    @asynccontextmanager
    async def open(self, **options: Any) -> AsyncIterator[Kernel]:
        """A kernel for application code; closed at the end of the block.

        Raises PolicyError for a handler that the worker of a narrowed request could not
        import, unless ``confine`` is ``mediator``; and as :meth:`kernel` does.
        """
        origin = self.origin(options.get("confine", self.confine))
        if origin is not None:
            options.setdefault("origin", origin)
        async with self.kernel(**options) as kernel:
            yield kernel

    def run(self) -> None:
        """Run the agent as a script: outside a box build it and supervise, inside serve.

        Ends the process, after one line on standard error, unless the handler returned: with
        1 when a call was denied, 125 when there is no box, 78 for a policy with faults.
        Application code that wants to go on uses :meth:`open`.
        """
        self._refuse_in_worker("agent.run() is called")
        from axonkernel.supervisor import run_agent
        from axonkernel.supervisor.ended import told

        try:
            self._refuse_unknown_tools()
            code = run_agent(self)
        except (AxonError, KeyboardInterrupt) as error:
            raise SystemExit(told(error)) from error
        if code:
            sys.exit(code)

    def origin(self, confine: Confine) -> Origin | None:
        """Where the worker of a narrowed request finds this agent; None where none is wanted.

        Raises PolicyError where no worker could import it.
        """
        walled = self.policy.effective_isolation != "none" and sys.platform == "linux"
        if not walled or self._handler is None or confine == "mediator":
            return None
        return self._origin()

    def _origin(self) -> Origin:
        """Where a worker finds this agent: a name of its module, or of its handler's."""
        from axonkernel.kernel.origin import Origin, imported, lost

        functions = (self._handler, *(tool.function for tool in self.tools))
        spaces = (self._space, *(getattr(each, "__globals__", {}) for each in functions))
        own = [space for space in spaces if space]
        if not any(value is self for space in own for value in space.values()):
            raise lost(f"the agent {self.name}", "a name")
        modules, namespaces = imported(own)
        return Origin(modules, "axonkernel.agent:found", self.name, namespaces)

    def _refuse_in_worker(self, what: str) -> None:
        """Code that starts an agent while it is imported would never come to its end."""
        inside = sys.modules.get("axonkernel.kernel.worker")
        if inside is not None and inside.importing():
            raise AxonError(
                f"{what} while the worker of a narrowed request imports "
                f"{self.entry or 'the agent'}; fix: put it under if __name__ == '__main__':"
            )

    def _refuse_unknown_tools(self) -> None:
        if self.policy.tools is None:
            return
        from axonkernel.policy.known import unknown_tools

        own = () if self._tools is None else (tool.name for tool in self._tools)
        if faults := unknown_tools(self.policy, own):
            raise PolicyError(faults, f"agent {self.name}")


def found(spaces: Mapping[str, Mapping[str, Any]], name: str) -> tuple[Any, ToolRegistry]:
    """The handler and the tools of the agent called ``name`` among what modules define.

    Raises AxonError where none of them defines it.
    """
    for space in spaces.values():
        for value in space.values():
            if isinstance(value, Agent) and value.name == name and value._handler is not None:
                return value._handler, value.tools
    raise AxonError(f"{', '.join(spaces)}: no agent {name!r} with a handler")


def define_agent(
    name: str | None = None,
    policy: Mapping[str, Any] | Policy | None = None,
    *,
    handler: Handler | None = None,
    base: str | os.PathLike[str] | None = None,
    confine: Confine = "worker",
) -> Agent:
    """Declare an agent and what it may do.

    Arguments:
        name: for records and prompts; the defining file's name when None.
        policy: a mapping of the blocks that docs/policy.md describes. None is unrestricted
            access, which the posture says.
        handler: a function of ``(kernel, request)``; or use ``@agent.handler``.
        base: folder that relative paths count from; the defining file's when None.
        confine: what holds the handler during a narrowed request: ``worker``, a process of
            its own that imports the agent by name, or ``mediator``, nothing below it.

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
    own = name if name is not None else called
    agent = Agent(own, policy, folder, file, confine=confine, space=caller)
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
