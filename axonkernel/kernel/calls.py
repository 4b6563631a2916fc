"""A tool call on its way: bound to its tool, and its failures typed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from axonkernel.errors import AxonError, ToolError
from axonkernel.policy.request import Request
from axonkernel.tools import Tool
from axonkernel.tools.tool import BoundCall

if TYPE_CHECKING:
    from axonkernel.kernel.core import Core

__all__ = ["bind", "failures"]


def bind(
    core: Core, name: str, args: Mapping[str, Any]
) -> tuple[Tool | None, BoundCall, ToolError | None]:
    """The tool and the bound call; what does not fit is told after the decision only."""
    tool = core.tools.get(name)
    if tool is not None:
        try:
            return tool, tool.bind(args, core.cwd), None
        except ToolError as error:
            return tool, BoundCall(Request.tool(name, tool.shown(args)), {}), error
    return None, BoundCall(Request.tool(name, args), {}), None


@contextmanager
def failures(name: str) -> Iterator[None]:
    """A tool's own failure as ToolError; our errors pass as they are."""
    try:
        yield
    except AxonError:
        raise
    except Exception as error:
        raise ToolError(name, f"{type(error).__name__}: {error}") from error
