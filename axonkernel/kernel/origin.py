"""Where the code of a handler can be found again, by another process that imports it."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from attrs import frozen

from axonkernel.errors import Fault, PolicyError
from axonkernel.kernel.passing import MAIN

if TYPE_CHECKING:
    from axonkernel.tools import ToolRegistry

__all__ = ["Module", "Origin", "function_origin", "imported", "lost", "module_of"]

#: Names under which a file was run, and not imported.
_RUN = ("__main__", "axon_config")


@frozen
class Module:
    """A module of the agent's.

    Arguments:
        name: as it is imported, or the name of a script as workers know it (``MAIN``).
        file: what is run to have it, for what cannot be imported by its name; else "".
    """

    name: str
    file: str = ""


@frozen
class Origin:
    """How a worker finds the handler and the tools of a kernel.

    Arguments:
        modules: what is imported, in this order.
        finder: ``module:function`` of ours; called with the namespaces of the modules and
            ``key``, it returns the handler and the tools.
        key: what it looks for.
        namespaces: of the modules in this process, by name.
    """

    modules: tuple[Module, ...]
    finder: str
    key: str
    namespaces: Mapping[str, Mapping[str, Any]]


def function_origin(handler: Callable[..., Any], tools: ToolRegistry) -> Origin:
    """Where ``handler``, a function of its module's top level, is found.

    Raises PolicyError for one that no other process can import.
    """
    name = getattr(handler, "__qualname__", "")
    space = getattr(handler, "__globals__", {})
    if space.get(name) is not handler:
        raise lost(f"the handler {name or type(handler).__name__}", "a function")
    own = module_of(space, handler)
    functions = (tool.function for tool in tools)
    modules, namespaces = imported((space, *_spaces(functions)))
    return Origin(modules, "axonkernel.kernel.origin:by_name", f"{own.name}:{name}", namespaces)


def by_name(namespaces: Mapping[str, Mapping[str, Any]], key: str) -> tuple[Any, Any]:
    """The handler that :func:`function_origin` named, and the tools: a registry of its module."""
    from axonkernel.tools import ToolRegistry, builtin_tools

    module, _, name = key.rpartition(":")
    spaces = (namespaces[module], *namespaces.values())
    found = (each for space in spaces for each in space.values() if isinstance(each, ToolRegistry))
    return namespaces[module][name], next(found, None) or builtin_tools()


def imported(
    spaces: Iterable[Mapping[str, Any]],
) -> tuple[tuple[Module, ...], dict[str, Mapping[str, Any]]]:
    """The modules that namespaces belong to, ours left out, and the namespaces by name."""
    modules: dict[Module, Mapping[str, Any]] = {}
    for space in spaces:
        if not str(space.get("__name__", "")).startswith("axonkernel."):
            modules.setdefault(module_of(space, None), space)
    return tuple(modules), {module.name: space for module, space in modules.items()}


def _spaces(functions: Iterable[Callable[..., Any]]) -> Iterable[Mapping[str, Any]]:
    return (each.__globals__ for each in functions if hasattr(each, "__globals__"))


def module_of(space: Mapping[str, Any], what: object) -> Module:
    """The module of a namespace. Raises PolicyError where there is no way to it again."""
    name, file = str(space.get("__name__", "")), space.get("__file__")
    spec = space.get("__spec__")
    if name == "__main__" and spec is not None:
        return Module(spec.name)  # python -m
    if name not in _RUN and sys.modules.get(name) is not None and _is_importable(name, file):
        return Module(name)
    if isinstance(file, str) and os.path.isfile(file):
        return Module(MAIN if name in _RUN else name, os.path.realpath(file))
    raise lost(f"what {name} defines", "a file or module of its own")


def _is_importable(name: str, file: object) -> bool:
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError, AttributeError):
        return False
    return spec is not None and (spec.origin == file or spec.origin is None)


def lost(what: str, wanted: str) -> PolicyError:
    """The error about code that no worker can import."""
    fault = Fault(
        "handler",
        f"{what} cannot be imported by name, as the worker of a narrowed request has to",
        hint=f"define it as {wanted} at the top level of a module, or say confine='mediator'",
    )
    return PolicyError([fault], "handler")
