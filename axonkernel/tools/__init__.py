"""Tools: functions of the agent behind the mediator, and those that come built in."""

from __future__ import annotations

from axonkernel.tools import files, search
from axonkernel.tools.fetch import Fetcher
from axonkernel.tools.registry import ToolRegistry
from axonkernel.tools.subjects import Argv, Host, Plain, ReadPath, Secret, Url, WritePath
from axonkernel.tools.tool import Tool, tool_from

__all__ = [
    "Argv",
    "Host",
    "Plain",
    "ReadPath",
    "Secret",
    "Tool",
    "ToolRegistry",
    "Url",
    "WritePath",
    "builtin_tools",
    "tool_from",
]


def builtin_tools() -> ToolRegistry:
    """The tools every kernel has."""
    registry = ToolRegistry()
    registry.register("fs.read", files.read)
    registry.register("fs.write", files.write)
    registry.register("fs.edit", files.edit)
    registry.register("fs.remove", files.remove)
    registry.register("fs.list", search.list_folder)
    registry.register("fs.glob", search.glob)
    registry.register("fs.grep", search.grep)
    registry.register("http.fetch", Fetcher().fetch)
    return registry
