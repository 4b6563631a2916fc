"""The table of built-in tools in docs/library.md is that of the registry."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

from axonkernel.tools import builtin_tools
from axonkernel.tools.tool import Tool

_PAGE = Path(__file__).parents[3] / "docs" / "library.md"


def test_the_table_names_every_tool_with_its_arguments_and_defaults() -> None:
    """No tool more or less, each argument in its order, each default as it is."""
    rows = re.findall(r"^\| `((?:fs|http)\.\w+)` \| (.*?) \|", _PAGE.read_text(), re.M)
    documented = {name: re.findall(r"`([^`]+)`", arguments) for name, arguments in rows}
    assert documented == {tool.name: _arguments(tool) for tool in builtin_tools()}


def _arguments(tool: Tool) -> list[str]:
    parameters = inspect.signature(tool.function).parameters.values()
    return [
        each.name if each.default is each.empty else f"{each.name}={each.default!r}"
        for each in parameters
        if each.name not in ("kernel", "self")
    ]
