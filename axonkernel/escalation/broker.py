"""One place where questions wait, with one clock."""

from __future__ import annotations

import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Literal, Protocol

import anyio

from axonkernel.errors import AuditError
from axonkernel.escalation.memory import Rate, RunMemory
from axonkernel.escalation.question import Answer, Decider, Question, as_data
from axonkernel.forks import forget_in_children

__all__ = ["Broker", "Pending"]

#: How often a waiting call looks for its answer, which may come from another thread or loop.
_LOOK_S = 0.02

_CLOSED_KEPT = 1000

#: Of what waits, in the line that says that nobody can be asked.
_SHOWN_CHARACTERS = 160


class _Audit(Protocol):
    def record(self, kind: str, /, **fields: Any) -> str: ...


class Pending:
    """One prompt and every equal call that waits for it.

    Arguments:
        question: the first of the equal calls.
        deadline_s: when it runs out, on the broker's clock.
    """

    def __init__(self, question: Question, deadline_s: float) -> None:
        self.question = question
        self.deadline_s = deadline_s
        self.waiting = 1
        self.led = False
        self.asked = False
        self.answer: Answer | None = None
        self.error: AuditError | None = None

    @property
    def settled(self) -> bool:
        """Whether the waiting calls can go on."""
        return self.answer is not None or self.error is not None


class Broker:
    """Takes questions to people and holds every other rule about answers.

    The first valid answer counts. A late, second or unknown one changes nothing and is
    recorded. Equal pending questions become one prompt. Nobody answers in time, or too many
    ask at once: no.

    Arguments:
        deciders: the ways to reach a person, all asked at once.
        audit: where questions and answers are recorded, before they have an effect.
        timeout_s: seconds a question waits.
        headless: ``deny`` answers at once when no decider is available; ``wait`` leaves time
            for :meth:`answer`.
        clock: monotonic seconds; the only clock here.
        pending_cap: prompts that may wait at one time.
        per_minute: new prompts in any minute.
    """

    def __init__(
        self,
        deciders: Iterable[Decider] = (),
        *,
        audit: _Audit,
        timeout_s: float = 30.0,
        headless: Literal["wait", "deny"] = "wait",
        clock: Callable[[], float] = time.monotonic,
        pending_cap: int = 32,
        per_minute: int = 60,
    ) -> None:
        self.deciders = tuple(deciders)
        self._audit = audit
        self._timeout_s = timeout_s
        self._headless = headless
        self._clock = clock
        self._pending_cap = pending_cap
        self._rate = Rate(per_minute)
        self._memory = RunMemory()
        self._lock = threading.RLock()
        self._by_key: dict[str, Pending] = {}
        self._closed_ids: OrderedDict[str, str] = OrderedDict()
        self._closed = False
        forget_in_children(self)

    def forget(self) -> None:
        """In a child nothing waits: those calls are the parent's, and so are their answers."""
        self._lock = threading.RLock()
        self._by_key.clear()

    def ask_sync(self, question: Question) -> Answer:
        """:meth:`ask` for code without an event loop.

        Raises RuntimeError inside a running event loop: use ``await`` there.
        """
        return anyio.run(self.ask, question)

    async def ask(self, question: Question) -> Answer:
        """Wait for the answer to ``question``, at most the timeout.

        Raises AuditError when question or answer cannot be recorded.
        """
        pending = self._join(question)
        if isinstance(pending, Answer):
            return pending
        try:
            while not pending.settled:
                if self._take_lead(pending):
                    await self._lead(pending)
                else:
                    await anyio.sleep(_LOOK_S)
                    self._expire(pending)
        finally:
            self._leave(pending)
        if pending.error is not None:
            raise pending.error
        assert pending.answer is not None
        return pending.answer

    def answer(self, escalation_id: str, answer: Answer) -> bool:
        """Give an answer from outside, from any thread; True when it counted.

        Raises AuditError when it cannot be recorded; it then does not count.
        """
        with self._lock:
            found = [p for p in self._by_key.values() if p.question.id == escalation_id]
            if not found:
                self._ignore(escalation_id, answer)
                return False
            self._expire(found[0])
            counted = self._settle(found[0], answer)
            if found[0].error is not None:
                raise found[0].error
            return counted

    def pending(self) -> tuple[Question, ...]:
        """The questions that wait now, one for each prompt."""
        with self._lock:
            return tuple(pending.question for pending in self._by_key.values())

    def waiting(self, escalation_id: str) -> int:
        """How many equal calls wait for one answer."""
        with self._lock:
            matching = (p for p in self._by_key.values() if p.question.id == escalation_id)
            return next((p.waiting for p in matching), 0)

    def close(self) -> None:
        """End the session: what waits is denied now, and nothing is asked again."""
        with self._lock:
            self._closed = True
            for pending in list(self._by_key.values()):
                self._settle(pending, Answer("cancelled"))

    def _join(self, question: Question) -> Pending | Answer:
        with self._lock:
            early = self._without_asking(question)
            if early is not None:
                self._audit.record("escalation.settled", outcome=early.outcome, **as_data(question))
                return early
            pending = self._by_key.get(question.key)
            if pending is not None:
                pending.waiting += 1
                return pending
            self._audit.record("escalation.asked", **as_data(question))
            pending = Pending(question, self._clock() + self._timeout_s)
            self._by_key[question.key] = pending
            return pending

    def _without_asking(self, question: Question) -> Answer | None:
        if self._closed:
            return Answer("cancelled")
        known = self._memory.recall(question)
        if known is not None:
            return known
        if question.key in self._by_key:
            return None
        if self._headless == "deny" and not any(d.available() for d in self.deciders):
            return Answer("headless")
        flooded = len(self._by_key) >= self._pending_cap or self._rate.exceeded(self._clock())
        return Answer("headless") if flooded else None

    def _take_lead(self, pending: Pending) -> bool:
        """One waiting call runs the deciders; when it is cancelled another takes over."""
        with self._lock:
            if pending.led or pending.settled:
                return False
            pending.led = True
            return True

    async def _lead(self, pending: Pending) -> None:
        try:
            self._tell_if_nobody(pending.question)
            async with anyio.create_task_group() as group:
                for decider in self.deciders:
                    if decider.available():
                        group.start_soon(self._consult, decider, pending)
                while not pending.settled:
                    await anyio.sleep(_LOOK_S)
                    self._expire(pending)
                group.cancel_scope.cancel()
        finally:
            pending.led = False

    def _tell_if_nobody(self, question: Question) -> None:
        """A wait that nobody sees is not silent: one line for whoever looks on."""
        if any(decider.available() for decider in self.deciders):
            return
        from axonkernel.policy.visible import visible

        sys.stderr.write(
            f"axonkernel: waiting {self._timeout_s:g} s for an answer to: "
            f"{visible(question.action)[:_SHOWN_CHARACTERS]}; nobody can be asked here "
            '(no terminal); escalation.headless = "deny" says no at once, '
            "and a program answers with kernel.broker.answer\n"
        )
        sys.stderr.flush()

    async def _consult(self, decider: Decider, pending: Pending) -> None:
        pending.asked = True
        try:
            answer = await decider.decide(pending.question)
        except Exception as error:  # a broken decider is no answer, and no reason to run
            self._note_failure(decider, pending, error)
            return
        if answer is not None:
            self._expire(pending)
            self._settle(pending, answer)

    def _note_failure(self, decider: Decider, pending: Pending, error: Exception) -> None:
        try:
            self._audit.record(
                "escalation.decider_failed",
                escalation_id=pending.question.id,
                by=decider.name,
                error=type(error).__name__,
            )
        except AuditError as unwritten:
            pending.error = unwritten

    def _expire(self, pending: Pending) -> None:
        with self._lock:
            if not pending.settled and self._clock() >= pending.deadline_s:
                self._settle(pending, Answer("timeout" if pending.asked else "headless"))

    def _settle(self, pending: Pending, answer: Answer) -> bool:
        """Record the answer, then let it count. False when there was one already.

        An answer that cannot be recorded does not count either: the waiting calls raise
        AuditError.
        """
        with self._lock:
            if pending.settled:
                self._ignore(pending.question.id, answer)
                return False
            self._close_entry(pending)
            try:
                self._audit.record(
                    "escalation.answered",
                    outcome=answer.outcome,
                    scope=answer.scope,
                    by=answer.by,
                    calls=pending.waiting,
                    **as_data(pending.question),
                )
            except AuditError as error:
                pending.error = error
                return False
            self._memory.keep(pending.question, answer)
            pending.answer = answer
            return True

    def _leave(self, pending: Pending) -> None:
        """One call goes; the last to go from an open question takes the prompt with it."""
        with self._lock:
            pending.waiting -= 1
            if pending.waiting == 0 and not pending.settled:
                self._settle(pending, Answer("cancelled"))

    def _close_entry(self, pending: Pending) -> None:
        self._by_key.pop(pending.question.key, None)
        self._closed_ids[pending.question.id] = pending.question.decision_id
        while len(self._closed_ids) > _CLOSED_KEPT:
            self._closed_ids.popitem(last=False)

    def _ignore(self, escalation_id: str, answer: Answer) -> None:
        late = escalation_id in self._closed_ids
        with suppress(AuditError):  # it changes nothing, recorded or not
            self._audit.record(
                "escalation.ignored",
                escalation_id=escalation_id,
                reason="already settled" if late else "no such question",
                outcome=answer.outcome,
                by=answer.by,
            )
