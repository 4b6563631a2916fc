"""A clock that only moves when told, a log in memory, and questions to ask."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from axonkernel.escalation import Question
from axonkernel.policy.request import Decision, Request
from unit.memory import MemoryAudit


class FakeClock:
    """Monotonic seconds, moved by hand."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def audit() -> MemoryAudit:
    return MemoryAudit()


@pytest.fixture
def ask_for() -> Callable[..., Question]:
    """Makes questions; each has an id of its own, equal words make equal calls."""
    count = 0

    def make(*argv: str, **options: Any) -> Question:
        nonlocal count
        count += 1
        request = Request.process(argv or ("git", "push"), cwd="/srv/ws")
        decision = Decision("escalate", "shell.args", "$.shell.args.git.escalate[0]")
        return Question(f"id-{count}", request, decision, **options)

    return make
