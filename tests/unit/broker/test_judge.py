"""Judging a call outside the box: recorded before anything follows, asked, withdrawn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from axonkernel.broker import judge as judging
from axonkernel.broker.judge import Judge
from axonkernel.broker.running import Runner
from axonkernel.errors import AuditError, EscalationDenied, PolicyDenied
from axonkernel.escalation import Answer, Broker, Callback, Question
from axonkernel.policy.decide import Stack, compile
from axonkernel.policy.parse import parse
from axonkernel.policy.request import ProcessRequest
from unit.memory import MemoryAudit

SHELL = {"allow": ["/usr/bin/git"], "args": {"git": {"deny": ["push -f*"], "escalate": ["tag*"]}}}
GIT = "/usr/bin/git"


class Clock:
    """The box's, as far as it stands still."""

    def __init__(self) -> None:
        self.still, self.times = False, 0

    @contextlib.contextmanager
    def while_asking(self) -> Iterator[None]:
        self.still, self.times = True, self.times + 1
        yield
        self.still = False


def made(audit: MemoryAudit, answer: Callable[[Question], Any], clock: Clock) -> Judge:
    policy = parse({"shell": SHELL}, base="/", source="test").closed()
    stack = Stack((compile(policy, layer="policy", path=("/usr/bin",)),))
    asker = Broker([Callback(answer)], audit=audit)
    return Judge(stack, audit, asker, "agent", clock.while_asking)


def ask(judge: Judge, *words: str, gone: Callable[[], bool] = lambda: False) -> str:
    request = ProcessRequest(("git", *words), "/srv", resolved=GIT)
    return judge.require(request, ("git", GIT), {"CI": "1"}, gone)


def test_allowed_by_another_name_and_denied_by_words() -> None:
    """The policy allows the file by its path; a denial has the id of its record."""
    audit = MemoryAudit()
    judge = made(audit, lambda question: True, Clock())
    assert ask(judge, "status")
    with pytest.raises(PolicyDenied) as caught:
        ask(judge, "push", "-f")
    assert caught.value.code == "shell.args"
    allowed, denied = audit.records
    assert (allowed["verdict"], denied["verdict"]) == ("allow", "deny")
    assert {each["source"] for each in audit.records} == {"broker"}
    assert caught.value.decision_id == "r2"


@pytest.mark.parametrize("yes", [True, False])
def test_a_person_is_asked_while_the_clock_stands_still(yes: bool) -> None:
    """With the variables that go along; yes lets it run, no is a typed denial."""
    clock, seen = Clock(), []

    def answer(question: Question) -> bool:
        seen.append((clock.still, dict(question.env), question.request.argv))
        return yes

    judge = made(MemoryAudit(), answer, clock)
    if yes:
        assert ask(judge, "tag", "v1")
    else:
        with pytest.raises(EscalationDenied) as caught:
            ask(judge, "tag", "v1")
        assert caught.value.outcome == "denied"
    assert seen == [(True, {"CI": "1"}, ("git", "tag", "v1"))]
    assert (clock.still, clock.times) == (False, 1)


def test_a_question_is_withdrawn_when_nobody_waits() -> None:
    """The prompt goes with its caller; that is no yes."""
    audit, asked = MemoryAudit(), []

    async def never(question: Question) -> Answer:
        import anyio

        asked.append(question)
        await anyio.sleep(60)
        return Answer.yes("late")

    judge = made(audit, never, Clock())
    with pytest.raises(EscalationDenied):
        ask(judge, "tag", "v1", gone=lambda: bool(asked))
    assert audit.records[-1]["outcome"] == "cancelled"


def test_calls_cannot_fill_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond a number of bytes every call is denied, and leaves no record."""
    monkeypatch.setattr(judging, "MOST_RECORDED_BYTES", 3000)
    audit = MemoryAudit()
    judge = made(audit, lambda question: True, Clock())
    assert ask(judge, "status") and ask(judge, "status")
    with pytest.raises(AuditError):
        ask(judge, "status")
    assert len(audit.records) == 2


def test_calls_that_fail_cannot_fill_it_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """A policy of nonsense costs its sender nothing: the caller is told, the log is not."""
    from axonkernel.errors import BoxError

    monkeypatch.setattr(judging, "MOST_RECORDED_BYTES", 3000)
    audit = MemoryAudit()
    runner = Runner(None, made(audit, lambda question: True, Clock()), audit, "agent")  # type: ignore[arg-type]
    told = [runner.failed("", BoxError("plan", "x" * 300)) for _ in range(4)]
    assert len(audit.records) == 2 and {each.code for each in told} == {125}


def test_parts_of_a_call_are_asked_about_by_words_alone() -> None:
    """A rule about a subcommand keeps it from being run by another; a hazard is no such rule."""
    from axonkernel.box.find import Program

    judge = made(MemoryAudit(), lambda question: True, Clock())
    git = Program("git", (), GIT)
    assert judge.allows(git, "gc") and judge.allows(git, "maintenance")
    assert not judge.allows(git, "tag")
