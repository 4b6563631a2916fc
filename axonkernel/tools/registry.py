"""The tools of one agent, under names that cannot be mistaken for one another."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from axonkernel.errors import Fault, PolicyError
from axonkernel.tools.tool import Tool, tool_from

__all__ = ["ToolRegistry", "alias"]

_LONGEST_NAME = 200

#: Host frameworks cut names at this length and replace what their models cannot spell.
_ALIAS_CHARACTERS = 64
_UNSPELLABLE = re.compile(r"[^a-z0-9_-]")


class ToolRegistry:
    """Tools by name. Rules match the registered name itself, never an alias of it."""

    def __init__(self, tools: tuple[Tool, ...] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self._aliases: dict[str, str] = {}
        for tool in tools:
            self.add(tool)

    def register(self, name: str, function: Callable[..., Any]) -> Tool:
        """Add ``function`` as the tool ``name``. Raises PolicyError; see :meth:`add`."""
        return self.add(tool_from(name, function))

    def add(self, tool: Tool) -> Tool:
        """Add a tool.

        Raises PolicyError when its name is not well formed, is taken, or shares with another
        tool the alias a framework would show for both.
        """
        fault = _malformed(tool.name)
        taken = self._aliases.get(alias(tool.name))
        if fault is None and taken is not None:
            fault = Fault(
                f"tool {tool.name}",
                f"cannot be told apart from the tool {taken}: both are {alias(tool.name)!r} to a "
                "model",
                hint="give one of them another name",
            )
        if fault is not None:
            raise PolicyError([fault], "tools")
        self._tools[tool.name] = tool
        self._aliases[alias(tool.name)] = tool.name
        return tool

    def get(self, name: str) -> Tool | None:
        """The tool of exactly this name."""
        return self._tools.get(name)

    def copy(self) -> ToolRegistry:
        """A registry with the same tools that can take more."""
        return ToolRegistry(tuple(self._tools.values()))

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __contains__(self, name: str) -> bool:
        return name in self._tools


def alias(name: str) -> str:
    """How a framework may spell a name for its model: upper case, dots and length are lost."""
    return _UNSPELLABLE.sub("_", name.lower())[:_ALIAS_CHARACTERS]


def _malformed(name: str) -> Fault | None:
    place = f"tool {name!r}"
    if not name or len(name) > _LONGEST_NAME:
        return Fault(place, f"a name has 1 to {_LONGEST_NAME} characters")
    if not name.isascii() or not name.isprintable() or " " in name:
        return Fault(place, "a name is printable ASCII without blanks")
    if "*" in name or not all(name.split(".")):
        return Fault(place, "a name is words joined by single dots, without *")
    return None
