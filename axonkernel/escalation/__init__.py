"""Asking a person, where the policy says so: questions, the broker, the ways to be asked.

The ways to be asked load on first use: what shows a question to a person knows programs and
shell lines, and few agents ever ask.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from axonkernel.escalation.broker import Broker
from axonkernel.escalation.question import Answer, Asker, Decider, Question

if TYPE_CHECKING:
    from axonkernel.escalation.callback import Callback
    from axonkernel.escalation.headless import Headless
    from axonkernel.escalation.tty import Terminal

__all__ = ["Answer", "Asker", "Broker", "Callback", "Decider", "Headless", "Question", "Terminal"]

_HOMES = {"Callback": "callback", "Headless": "headless", "Terminal": "tty"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
