"""From an answer to what its caller gets."""

from __future__ import annotations

from collections.abc import Mapping

from axonkernel.errors import EscalationDenied, EscalationOutcome, PolicyDenied
from axonkernel.escalation.question import Answer, Question

__all__ = ["concluded"]

_OUTCOMES: Mapping[str, EscalationOutcome] = {
    "denied": "denied",
    "timeout": "timeout",
    "headless": "headless",
    "cancelled": "headless",
}


def concluded(question: Question, answer: Answer) -> str:
    """The record id of a call that may run now.

    Raises PolicyDenied for a call that was denied too often to be asked about, EscalationDenied
    for every other answer but yes.
    """
    if answer.allowed:
        return question.decision_id
    if answer.outcome == "repeated":
        raise PolicyDenied("repeated", question.action, False, question.decision_id)
    raise EscalationDenied(
        question.decision.code,
        question.action,
        False,
        question.decision_id,
        _OUTCOMES[answer.outcome],
    )
