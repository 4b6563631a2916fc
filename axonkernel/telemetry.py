"""Spans through OpenTelemetry where it is installed; nothing at all where it is not.

Names follow its conventions for agents: ``execute_tool NAME``, with a child
``axon.decide NAME`` for the decision.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

__all__ = ["decide_span", "tell_events", "tool_span"]

_NOTHING: AbstractContextManager[None] = nullcontext()
#: Registered names are no longer.
_LONGEST_NAME = 200
_Starter = Callable[..., AbstractContextManager[Any]]


def tool_span(name: str) -> AbstractContextManager[Any]:
    """A span around one call: its decision, the wait for a human, the run."""
    start = _starter()
    if start is None:
        return _NOTHING
    name = _told(name)
    attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": name}
    return start(f"execute_tool {name}", attributes=attributes)


def decide_span(name: str) -> AbstractContextManager[Any]:
    """A span around one decision; ``set_attribute`` on what it yields, when not None."""
    start = _starter()
    return _NOTHING if start is None else start(f"axon.decide {_told(name)}")


def tell_events(name: str, events: Sequence[Mapping[str, Any]]) -> None:
    """Add events to the span this call is in, such as ``net.drop`` with what was refused."""
    if not events or _starter() is None:
        return
    from opentelemetry import trace  # type: ignore[import-not-found, unused-ignore]

    span = trace.get_current_span()
    for event in events:
        span.add_event(name, {f"axon.{key}": value for key, value in event.items()})


def _told(name: str) -> str:
    """A tool's name as asked for, which can be anything: bounded, and with bytes to send."""
    return name[:_LONGEST_NAME].encode("utf-8", "backslashreplace").decode()


@cache
def _starter() -> _Starter | None:
    try:
        from opentelemetry import trace  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    starter: _Starter = trace.get_tracer("axonkernel").start_as_current_span
    return starter
