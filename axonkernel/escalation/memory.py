"""What people already answered in this run, and the floods that are cut off."""

from __future__ import annotations

from collections import Counter, deque

from axonkernel.escalation.question import Answer, Question

__all__ = ["RunMemory"]

#: After this many refusals of one call by a person it is refused without a prompt.
REFUSALS = 3

#: Rows kept; a run that asks more different things forgets the oldest refusal counts.
_CAP = 10_000


class RunMemory:
    """Answers that settle equal calls for the rest of the run.

    Nothing here is asked about a call that the policy denies or allows by itself: the broker
    consults it for escalations only, so no answer can lift a deny.
    """

    def __init__(self) -> None:
        self._answers: dict[str, Answer] = {}
        self._refusals: Counter[str] = Counter()

    def recall(self, question: Question) -> Answer | None:
        """The answer that already settles this call, if any."""
        known = self._answers.get(question.key)
        if known is not None:
            return known
        return Answer("repeated") if self._refusals[question.key] >= REFUSALS else None

    def keep(self, question: Question, answer: Answer) -> None:
        """Take note of a person's answer."""
        if answer.outcome == "denied":
            self._refusals[question.key] += 1
        elif answer.allowed:
            self._refusals.pop(question.key, None)
        if answer.scope != "once" and answer.outcome in ("allowed", "denied"):
            self._answers[question.key] = answer
        while len(self._refusals) > _CAP:
            self._refusals.pop(next(iter(self._refusals)))


class Rate:
    """How many new prompts there were in the last minute.

    Arguments:
        per_minute: the cap.
    """

    def __init__(self, per_minute: int) -> None:
        self._per_minute = per_minute
        self._times: deque[float] = deque()

    def exceeded(self, now_s: float) -> bool:
        """Count one more prompt at ``now_s``, unless it would be one too many."""
        while self._times and self._times[0] <= now_s - 60.0:
            self._times.popleft()
        if len(self._times) >= self._per_minute:
            return True
        self._times.append(now_s)
        return False
