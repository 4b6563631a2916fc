"""The broker: the first valid answer counts, and everything else ends in no."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio
import pytest

from axonkernel.errors import AuditError
from axonkernel.escalation import Answer, Broker, Callback, Headless, Question
from tests.unit.escalation.conftest import FakeClock
from unit.memory import MemoryAudit

AskFor = Callable[..., Question]


def _run(function: Callable[[], Awaitable[None]]) -> None:
    async def guarded() -> None:
        with anyio.fail_after(5):
            await function()

    anyio.run(guarded)


async def _pending(broker: Broker, count: int = 1) -> tuple[Question, ...]:
    while len(broker.pending()) < count:
        await anyio.sleep(0.005)
    return broker.pending()


def test_a_yes_lets_the_call_run(audit: MemoryAudit, ask_for: AskFor) -> None:
    """An answer from a decider is what ask() returns, recorded before."""
    broker = Broker([Callback(lambda question: True)], audit=audit)
    assert broker.ask_sync(ask_for()).allowed
    assert audit.kinds() == ["escalation.asked", "escalation.answered"]


@pytest.mark.parametrize("reply", [False, None, 1, "yes", object()])
def test_only_true_or_an_answer_is_a_yes(
    audit: MemoryAudit, ask_for: AskFor, clock: FakeClock, reply: object
) -> None:
    """A truthy object that a callback happens to return does not approve."""

    async def decide(question: Question) -> object:
        clock.now_s += 31
        return reply

    broker = Broker([Callback(decide)], audit=audit, clock=clock)  # type: ignore[arg-type]
    assert not broker.ask_sync(ask_for()).allowed


def test_async_callbacks_run_in_the_callers_loop(audit: MemoryAudit, ask_for: AskFor) -> None:
    """Application code can use its own loop's objects in the callback."""

    async def main() -> None:
        event = anyio.Event()

        async def decide(question: Question) -> bool:
            event.set()
            return True

        assert (await Broker([Callback(decide)], audit=audit).ask(ask_for())).allowed
        assert event.is_set()

    _run(main)


def test_nobody_answers_in_time(audit: MemoryAudit, ask_for: AskFor, clock: FakeClock) -> None:
    """Asked and not answered: timeout. The clock is the broker's own."""

    async def never(question: Question) -> bool:
        clock.now_s += 29
        await anyio.sleep(0.1)
        clock.now_s += 2
        await anyio.sleep(60)
        return True

    broker = Broker([Callback(never)], audit=audit, clock=clock, timeout_s=30)
    assert broker.ask_sync(ask_for()).outcome == "timeout"


def test_headless_waits_its_time_for_an_answer(
    audit: MemoryAudit, ask_for: AskFor, clock: FakeClock
) -> None:
    """Without deciders a question waits for the timeout, then fails closed."""
    broker = Broker(audit=audit, clock=clock, timeout_s=30)
    answers: list[Answer] = []

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(_collect, broker, ask_for(), answers)
            await _pending(broker)
            clock.now_s += 29.9
            await anyio.sleep(0.1)
            assert answers == []
            clock.now_s += 0.2

    _run(main)
    assert [answer.outcome for answer in answers] == ["headless"]


async def _collect(broker: Broker, question: Question, answers: list[Answer]) -> None:
    answers.append(await broker.ask(question))


def test_headless_deny_answers_at_once(
    audit: MemoryAudit, ask_for: AskFor, clock: FakeClock
) -> None:
    """``headless: deny`` does not wait; neither does the Headless decider."""
    broker = Broker(audit=audit, clock=clock, headless="deny")
    assert broker.ask_sync(ask_for()).outcome == "headless"
    broker = Broker([Headless()], audit=audit, clock=clock)
    assert broker.ask_sync(ask_for()).outcome == "headless"
    assert clock.now_s == 1000.0


def test_an_answer_from_outside_counts_once(
    audit: MemoryAudit, ask_for: AskFor, clock: FakeClock
) -> None:
    """The first answer wins; deny then approve stays denied, and is recorded."""
    broker = Broker(audit=audit, clock=clock)
    answers: list[Answer] = []

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(_collect, broker, ask_for(), answers)
            (question,) = await _pending(broker)
            assert broker.answer(question.id, Answer.no("watch"))
            assert not broker.answer(question.id, Answer.yes("watch"))
            assert not broker.answer("id of another session", Answer.yes("watch"))

    _run(main)
    assert [answer.outcome for answer in answers] == ["denied"]
    ignored = [r["reason"] for r in audit.records if r["kind"] == "escalation.ignored"]
    assert ignored == ["already settled", "no such question"]


def test_a_late_answer_revives_nothing(
    audit: MemoryAudit, ask_for: AskFor, clock: FakeClock
) -> None:
    """Approving in the very moment after expiry has no effect."""
    broker = Broker(audit=audit, clock=clock, timeout_s=30)
    answers: list[Answer] = []

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(_collect, broker, ask_for(), answers)
            (question,) = await _pending(broker)
            clock.now_s += 30
            assert not broker.answer(question.id, Answer.yes("watch"))

    _run(main)
    assert not answers[0].allowed
    assert "escalation.ignored" in audit.kinds()


def test_equal_pending_questions_are_one_prompt(audit: MemoryAudit, ask_for: AskFor) -> None:
    """200 equal calls at once: one prompt, its answer settles all."""
    prompts: list[Question] = []
    answers: list[Answer] = []

    async def main() -> None:
        async def decide(question: Question) -> bool:
            prompts.append(question)
            while broker.waiting(question.id) < 200:
                await anyio.sleep(0.005)
            return True

        broker = Broker([Callback(decide)], audit=audit)
        async with anyio.create_task_group() as group:
            for _ in range(200):
                group.start_soon(_collect, broker, ask_for(), answers)

    _run(main)
    assert len(prompts) == 1
    assert [answer.allowed for answer in answers] == [True] * 200


@pytest.mark.parametrize(
    "other",
    [("git", "push", "-f"), ("git", "push", ""), ("sh", "-c", "git push"), ("git push",)],
)
def test_other_words_are_another_question(
    audit: MemoryAudit, ask_for: AskFor, other: tuple[str, ...]
) -> None:
    """An answer covers exactly the argv that was shown."""
    asked: list[Question] = []

    def decide(question: Question) -> Answer:
        asked.append(question)
        return Answer.yes("callback", "run")

    broker = Broker([Callback(decide)], audit=audit)
    for _ in range(3):
        broker.ask_sync(ask_for("git", "push"))
    assert len(asked) == 1
    broker.ask_sync(ask_for(*other))
    assert len(asked) == 2


def test_the_environment_is_part_of_the_call(audit: MemoryAudit, ask_for: AskFor) -> None:
    """The same words with another variable are asked about again."""
    first = ask_for("git", "push", env={"GIT_SSH_COMMAND": "ssh"})
    second = ask_for("git", "push", env={"GIT_SSH_COMMAND": "evil"})
    assert first.key != second.key
    assert first.key == ask_for("git", "push", env={"GIT_SSH_COMMAND": "ssh"}).key


def test_three_refusals_end_the_asking(audit: MemoryAudit, ask_for: AskFor) -> None:
    """The fourth equal call is denied without a prompt; another call is still asked."""
    asked: list[str] = []

    def decide(question: Question) -> bool:
        asked.append(question.action)
        return False

    broker = Broker([Callback(decide)], audit=audit)
    outcomes = [broker.ask_sync(ask_for()).outcome for _ in range(5)]
    assert outcomes == ["denied", "denied", "denied", "repeated", "repeated"]
    assert len(asked) == 3
    assert broker.ask_sync(ask_for("git", "fetch")).outcome == "denied"
    assert len(asked) == 4


def test_timeouts_are_not_refusals(audit: MemoryAudit, ask_for: AskFor, clock: FakeClock) -> None:
    """Only a person's no counts toward the three."""
    broker = Broker(audit=audit, clock=clock, timeout_s=0)
    outcomes = [broker.ask_sync(ask_for()).outcome for _ in range(5)]
    assert outcomes == ["headless"] * 5


def test_closing_denies_what_waits(audit: MemoryAudit, ask_for: AskFor) -> None:
    """A session's end cancels its questions, and a later approval starts nothing."""
    broker = Broker(audit=audit)
    answers: list[Answer] = []

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(_collect, broker, ask_for(), answers)
            (question,) = await _pending(broker)
            broker.close()
            assert broker.pending() == ()
            assert not broker.answer(question.id, Answer.yes("watch"))

    _run(main)
    assert answers[0].outcome == "cancelled"
    assert broker.ask_sync(ask_for()).outcome == "cancelled"


def test_a_cancelled_call_takes_its_prompt_along(audit: MemoryAudit, ask_for: AskFor) -> None:
    """When the only caller is gone nothing is pending and no answer counts."""
    broker = Broker(audit=audit)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(broker.ask, ask_for())
            (question,) = await _pending(broker)
            group.cancel_scope.cancel()
        assert broker.pending() == ()
        assert not broker.answer(question.id, Answer.yes("watch"))

    _run(main)


def test_equal_calls_outlive_the_first_of_them(audit: MemoryAudit, ask_for: AskFor) -> None:
    """The prompt goes on when the call that opened it is cancelled and another waits."""
    prompts: list[Question] = []
    answers: list[Answer] = []

    async def main() -> None:
        async def decide(question: Question) -> bool:
            prompts.append(question)
            if len(prompts) == 1:
                await anyio.sleep(60)
            return True

        broker = Broker([Callback(decide)], audit=audit)
        async with anyio.create_task_group() as outer:
            with anyio.CancelScope() as scope:
                async with anyio.create_task_group() as inner:
                    inner.start_soon(broker.ask, ask_for())
                    (question,) = await _pending(broker)
                    outer.start_soon(_collect, broker, ask_for(), answers)
                    while broker.waiting(question.id) < 2:
                        await anyio.sleep(0.005)
                    scope.cancel()

    _run(main)
    assert [answer.allowed for answer in answers] == [True]


def test_a_flood_of_questions_is_denied(
    audit: MemoryAudit, ask_for: AskFor, clock: FakeClock
) -> None:
    """More prompts than the cap in a minute are not shown; a minute later they are again."""
    shown: list[Question] = []

    def decide(question: Question) -> bool:
        shown.append(question)
        return True

    broker = Broker([Callback(decide)], audit=audit, clock=clock, per_minute=5)
    answers = [broker.ask_sync(ask_for("git", str(n))) for n in range(20)]
    assert [answer.allowed for answer in answers] == [True] * 5 + [False] * 15
    assert len(shown) == 5
    clock.now_s += 61
    assert broker.ask_sync(ask_for("git", "later")).allowed


def test_the_pending_cap_holds(audit: MemoryAudit, ask_for: AskFor) -> None:
    """The question over the cap is denied at once while the others go on waiting."""
    broker = Broker(audit=audit, pending_cap=2)
    answers: list[Answer] = []

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for n in range(2):
                group.start_soon(_collect, broker, ask_for("git", str(n)), answers)
            questions = await _pending(broker, 2)
            assert not (await broker.ask(ask_for("git", "one too many"))).allowed
            for question in questions:
                assert broker.answer(question.id, Answer.yes("watch"))

    _run(main)
    assert [answer.allowed for answer in answers] == [True, True]


def test_a_broken_decider_is_no_answer(
    audit: MemoryAudit, ask_for: AskFor, clock: FakeClock
) -> None:
    """An exception in a callback is recorded and approves nothing."""

    def broken(question: Question) -> bool:
        clock.now_s += 31
        raise ValueError("bug")

    broker = Broker([Callback(broken)], audit=audit, clock=clock)
    assert not broker.ask_sync(ask_for()).allowed
    assert "escalation.decider_failed" in audit.kinds()


def test_an_answer_that_cannot_be_recorded_does_not_count(
    audit: MemoryAudit, ask_for: AskFor
) -> None:
    """A yes with a full log raises AuditError in the waiting call."""

    def decide(question: Question) -> bool:
        audit.broken = True
        return True

    with pytest.raises(AuditError):
        Broker([Callback(decide)], audit=audit).ask_sync(ask_for())


def test_a_question_that_cannot_be_recorded_is_not_asked(
    audit: MemoryAudit, ask_for: AskFor
) -> None:
    """No prompt appears when the log is full."""
    shown: list[Question] = []
    audit.broken = True
    with pytest.raises(AuditError):
        Broker([Callback(lambda q: bool(shown.append(q)))], audit=audit).ask_sync(ask_for())
    assert shown == []


def test_a_wait_that_nobody_sees_is_told(
    audit: MemoryAudit, ask_for: AskFor, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line with how long and what to do; none where somebody is asked."""
    assert Broker(audit=audit, timeout_s=0.01).ask_sync(ask_for()).outcome == "headless"
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "waiting 0.01 s for an answer to: " in told
    assert 'escalation.headless = "deny"' in told
    Broker([Callback(lambda question: True)], audit=audit).ask_sync(ask_for())
    assert capsys.readouterr().err == ""
