"""The decider of runs nobody watches: no, at once."""

from __future__ import annotations

from axonkernel.escalation.question import Answer, Question

__all__ = ["Headless"]


class Headless:
    """Answers every question with the outcome ``headless``, without waiting."""

    name = "headless"

    def available(self) -> bool:
        """Always."""
        return True

    async def decide(self, question: Question) -> Answer:
        """No: nobody can be asked here."""
        return Answer("headless", by=self.name)
