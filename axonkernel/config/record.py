"""Runs ``axon.config.py`` inside a closed box and sends back what ``define_agent`` was given.

Started as a script, standard library only. Standard input is the configuration's text,
descriptor 3 takes one JSON document: ``{"agents": [{"name", "policy", "base", "tools"}]}`` or
``{"error": text, "line": number}``. The functions of the configuration are never called.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import types
from collections.abc import Callable
from typing import Any

#: A configuration that needs more memory or files than this is not one.
_CAPS = (
    (resource.RLIMIT_AS, 1 << 30),
    (resource.RLIMIT_CPU, 4),
    (resource.RLIMIT_CORE, 0),
)


class Recorded:
    """Stands where the agent would: every attribute decorates, every call does nothing."""

    def __init__(self, *args: Any, **keywords: Any) -> None:
        self._tools: list[str] = []

    def tool(self, name: Any, *args: Any, **keywords: Any) -> Any:
        """Note the name of a tool."""
        self._tools.append(str(name))
        return _decorate

    def kernel(self, *args: Any, **keywords: Any) -> Any:
        """There is none where only the policy is read."""
        raise RuntimeError(
            "a kernel is made while the policy is read; put that under if __name__ == '__main__':"
        )

    open = kernel

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _decorate


class RecordedModule(types.ModuleType):
    """Stands where ``axonkernel.agent`` would, so that nothing real is built in here."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Recorded


def _decorate(*args: Any, **keywords: Any) -> Any:
    if len(args) == 1 and not keywords and callable(args[0]):
        return args[0]
    return lambda function: function


def main(path: str, package: str) -> dict[str, Any]:
    """Evaluate the text on standard input as the file ``path``; the document to send."""
    for kind, cap in _CAPS:
        resource.setrlimit(kind, (cap, cap))
    sys.path.append(package)
    agents: list[dict[str, Any]] = []
    _stand_in(agents)
    sys.path.insert(0, os.path.dirname(path))
    text = sys.stdin.buffer.read()
    try:
        module = types.ModuleType("axon_config")
        module.__file__ = path
        sys.modules["axon_config"] = module
        exec(compile(text, path, "exec"), module.__dict__)
        return {"agents": json.loads(json.dumps(agents, default=os.fspath))}
    except SyntaxError as error:
        return {"error": f"SyntaxError: {error.msg}", "line": error.lineno}
    except BaseException as error:  # SystemExit too: a configuration has no way to end well
        return {"error": f"{type(error).__name__}: {error}", "line": _line(error, path)}


def _stand_in(agents: list[dict[str, Any]]) -> None:
    import axonkernel

    module: Any = RecordedModule("axonkernel.agent")
    module.define_agent = _recorder(agents)
    sys.modules["axonkernel.agent"] = module
    axonkernel.__dict__.update(agent=module, define_agent=module.define_agent)


def _recorder(agents: list[dict[str, Any]]) -> Callable[..., Recorded]:
    """Takes what the real ``define_agent`` takes."""

    def define_agent(
        name: str | None = None,
        policy: Any = None,
        *,
        handler: Any = None,
        base: Any = None,
        confine: Any = None,
    ) -> Recorded:
        if policy is not None and not isinstance(policy, dict):
            policy = _as_data(policy)
        agent = Recorded()
        agents.append({"name": name, "policy": policy, "base": base, "tools": agent._tools})
        return agent

    return define_agent


def _as_data(policy: Any) -> Any:
    """A ``Policy`` value, or another kind of mapping, as plain data."""
    from collections.abc import Mapping

    from axonkernel.policy.model import Policy
    from axonkernel.policy.parse import unparse

    if isinstance(policy, Policy):
        return unparse(policy)
    return dict(policy) if isinstance(policy, Mapping) else policy


def _line(error: BaseException, path: str) -> int | None:
    """The last line of the configuration that the error went through."""
    line, step = None, error.__traceback__
    while step is not None:
        if step.tb_frame.f_code.co_filename == path:
            line = step.tb_lineno
        step = step.tb_next
    return line


if __name__ == "__main__":
    document = json.dumps(main(sys.argv[1], sys.argv[2]))
    with open(3, "w", encoding="utf-8") as channel:
        channel.write(document)
    os._exit(0)
