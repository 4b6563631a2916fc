"""Escalations through the kernel: nobody answers, somebody answers, and what cannot be lifted."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axonkernel import EscalationDenied, Kernel, PolicyDenied
from axonkernel.escalation import Answer, Callback, Question
from unit.memory import MemoryAudit

Make = Callable[..., Kernel]

TOUCH = {
    "shell": {
        "allow": ["touch"],
        "args": {"touch": {"escalate": ["out/asked*"], "deny": ["out/never*"]}},
    }
}
AT_ONCE = {"escalation": {"headless": "deny"}}


def test_nobody_to_ask_is_no(make: Make, ws: Path, audit: MemoryAudit) -> None:
    """``headless: deny`` refuses at once, with the reason; nothing ran."""
    start = time.monotonic()
    with pytest.raises(EscalationDenied) as caught:
        make({**TOUCH, **AT_ONCE}).process.run_sync(["touch", "out/asked"])
    assert time.monotonic() - start < 1
    assert (caught.value.outcome, caught.value.code) == ("headless", "shell.args")
    assert not (ws / "out" / "asked").exists()
    assert audit.kinds() == ["decision", "escalation.settled"]


def test_an_unanswered_question_fails_closed(make: Make, ws: Path) -> None:
    """After ``escalation.timeout`` the call is denied; an allowed neighbour still runs."""
    kernel = make({**TOUCH, "escalation": {"timeout": "1s"}})
    start = time.monotonic()
    with pytest.raises(EscalationDenied) as caught:
        anyio.run(kernel.process.run, ["touch", "out/asked"])
    assert 0.9 < time.monotonic() - start < 3
    assert caught.value.outcome == "headless"
    assert not (ws / "out" / "asked").exists()
    assert kernel.process.run_sync(["touch", "out/free"]).ok


def test_a_yes_runs_exactly_what_was_shown(make: Make, ws: Path) -> None:
    """The question holds the words, the folder, the program and the variables."""
    shown: list[Question] = []

    def decide(question: Question) -> bool:
        shown.append(question)
        return True

    kernel = make(TOUCH, deciders=[Callback(decide)])
    assert kernel.process.run_sync(["touch", "out/asked"], env={"A": "1"}).ok
    assert (ws / "out" / "asked").exists()
    (question,) = shown
    assert question.action == 'run ["touch", "out/asked"]'
    assert question.cwd == str(ws) and question.env == {"A": "1"}
    assert question.request.resolved == os.path.realpath("/usr/bin/touch")  # type: ignore[union-attr]


def test_a_no_is_a_no(make: Make, ws: Path) -> None:
    """A person's refusal, and after three of them no more prompts."""
    asked: list[Question] = []

    def decide(question: Question) -> bool:
        asked.append(question)
        return False

    kernel = make(TOUCH, deciders=[Callback(decide)])
    for _ in range(3):
        with pytest.raises(EscalationDenied) as caught:
            kernel.process.run_sync(["touch", "out/asked"])
        assert caught.value.outcome == "denied"
    with pytest.raises(PolicyDenied) as repeated:
        kernel.process.run_sync(["touch", "out/asked"])
    assert repeated.value.code == "repeated" and len(asked) == 3
    assert not (ws / "out" / "asked").exists()


def test_approving_for_the_run_stops_the_asking(make: Make) -> None:
    """The same call runs again unasked; another one is asked about."""
    asked: list[str] = []

    def decide(question: Question) -> Answer:
        asked.append(question.action)
        return Answer.yes("callback", "run")

    kernel = make(TOUCH, deciders=[Callback(decide)])
    for _ in range(3):
        assert kernel.process.run_sync(["touch", "out/asked"]).ok
    assert kernel.process.run_sync(["touch", "out/asked2"]).ok
    assert len(asked) == 2


def test_closing_the_kernel_ends_what_waits(make: Make, ws: Path) -> None:
    """A pending call is denied when its session ends, and a late yes starts nothing."""
    kernel = make(TOUCH)
    denied: list[BaseException] = []

    async def call() -> None:
        try:
            await kernel.process.run(["touch", "out/asked"])
        except EscalationDenied as error:
            denied.append(error)

    async def main() -> None:
        assert kernel.broker is not None
        with anyio.fail_after(5):
            async with anyio.create_task_group() as group:
                group.start_soon(call)
                while not kernel.broker.pending():
                    await anyio.sleep(0.01)
                (question,) = kernel.broker.pending()
                kernel.close()
                assert not kernel.broker.answer(question.id, Answer.yes("late"))

    anyio.run(main)
    assert len(denied) == 1 and not (ws / "out" / "asked").exists()


@settings(max_examples=40, deadline=None)
@given(
    answers=st.lists(
        st.sampled_from(
            [
                Answer.yes("x"),
                Answer.yes("x", "run"),
                Answer.yes("x", "always"),
                Answer.no("x"),
                Answer.no("x", "run"),
            ]
        ),
        max_size=6,
    ),
    calls=st.lists(st.sampled_from(["out/asked", "out/never", "out/asked2"]), max_size=8),
)
def test_no_sequence_of_approvals_lifts_a_deny(
    tmp_path_factory: pytest.TempPathFactory, answers: list[Answer], calls: list[str]
) -> None:
    """Whatever was approved before, in whatever order, the denied call stays denied."""
    folder = tmp_path_factory.mktemp("ws")
    (folder / "out").mkdir()
    left = list(answers)

    def decide(question: Question) -> Answer:
        assert "never" not in question.action, "a denied call was put to a person"
        return left.pop() if left else Answer.yes("x", "run")

    policy = {"isolation": "none", **TOUCH, "tools": {"mail": "escalate"}}
    kernel = Kernel(policy, cwd=folder, audit=MemoryAudit(), deciders=[Callback(decide)])
    for path in [*calls, "out/never"]:
        with suppress(PolicyDenied):
            kernel.process.run_sync(["touch", path])
    with pytest.raises(PolicyDenied) as caught:
        kernel.process.run_sync(["touch", "out/never"])
    assert caught.value.code == "shell.args"
    assert not (folder / "out" / "never").exists()


@pytest.mark.parametrize("shape", ["null", "pipe", "closed", "tty"])
def test_no_shape_of_standard_input_hangs_a_headless_run(tmp_path: Path, shape: str) -> None:
    """With any stdin an unanswerable escalation ends at once and stdout stays clean."""
    code = (
        "import sys\n"
        "from axonkernel import Kernel, EscalationDenied\n"
        "k = Kernel({'tools': {'*': 'escalate'}, 'escalation': {'headless': 'deny'}},"
        " audit=sys.argv[1])\n"
        "try:\n"
        "    k.call_sync('fs.read', path='x')\n"
        "except EscalationDenied:\n"
        "    sys.exit(10)\n"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "log")]
    if shape == "closed":
        command = ["sh", "-c", 'exec "$@" <&-', "sh", *command]
    ends = {"pipe": os.pipe, "tty": os.openpty}.get(shape, lambda: (-1, subprocess.DEVNULL))()
    try:
        done = subprocess.run(
            command,
            stdin=min(ends) if shape == "pipe" else ends[1],
            stdout=subprocess.PIPE,
            start_new_session=True,
            timeout=15,
            env={**os.environ, "PYTHONPATH": os.getcwd()},
        )
    finally:
        for end in ends:
            if end > 2:
                os.close(end)
    assert (done.returncode, done.stdout) == (10, b"")
