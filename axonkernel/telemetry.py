"""Spans through OpenTelemetry where it is installed; nothing at all where it is not.

Names follow its conventions for agents: ``execute_tool NAME``, with a child
``axon.decide NAME`` for the decision.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

__all__ = ["decide_span", "tool_span"]

_NOTHING: AbstractContextManager[None] = nullcontext()
_Starter = Callable[..., AbstractContextManager[Any]]


def tool_span(name: str) -> AbstractContextManager[Any]:
    """A span around one call: its decision, the wait for a human, the run."""
    start = _starter()
    if start is None:
        return _NOTHING
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    return start(f"execute_tool {name}", attributes=attributes)


def decide_span(name: str) -> AbstractContextManager[Any]:
    """A span around one decision; ``set_attribute`` on what it yields, when not None."""
    start = _starter()
    return _NOTHING if start is None else start(f"axon.decide {name}")


@cache
def _starter() -> _Starter | None:
    try:
        from opentelemetry import trace  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    starter: _Starter = trace.get_tracer("axonkernel").start_as_current_span
    return starter
