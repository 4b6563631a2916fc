"""What the page "Kernel & Policy" says, sentence by sentence: escalation.

Each docstring starts with the words of the sentence it is about; the sentences about OS
confinement are in ``tests/box/test_seed_axon.py``.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import anyio
import pytest

from axonkernel import EscalationDenied
from axonkernel.escalation import Callback, Question
from lab.agents import Project
from unit.seed_axon.world import ESCALATE, PUSH, Make, Repository


def test_escalate_pauses_execution_and_surfaces_the_call(
    make: Make, repository: Repository
) -> None:
    """Seed: "pauses execution and surfaces the call": nothing runs until the answer; others do."""
    surfaced: list[Question] = []

    async def main() -> bool:
        answered = anyio.Event()

        async def decide(question: Question) -> bool:
            surfaced.append(question)
            await answered.wait()
            return True

        kernel = make(ESCALATE, deciders=[Callback(decide)])
        async with anyio.create_task_group() as group:
            group.start_soon(kernel.process.run, PUSH)
            while not surfaced:
                await anyio.sleep(0.01)
            assert (await kernel.process.run(["git", "status"])).ok
            paused = not repository.pushed
            answered.set()
        return paused

    assert anyio.run(main)
    assert repository.pushed
    assert surfaced[0].action == f"run {PUSH!r}".replace("'", '"')


class Person:
    """A project whose agent pushes twice, and the person at its terminal."""

    def __init__(self, home: Path) -> None:
        self.project = Project(home)
        self.project.folder.mkdir(parents=True)
        self.repository = Repository(home, self.project.folder)

    def agent(self, policy: dict[str, Any], times: int = 1) -> None:
        body = f"""
        for _ in range({times}):
            await kernel.process.run({PUSH!r})
        return "done"
        """
        self.project.agent(policy, body)


PROMPT = "[no]: "


@pytest.fixture
def person(tmp_path: Path) -> Person:
    return Person(tmp_path / "home")


def test_the_terminal_shows_the_call_and_its_arguments_and_waits(person: Person) -> None:
    """Seed: "The TUI shows the call, the arguments it was made with, and waits"."""
    person.agent(ESCALATE)
    with person.project.on_terminal("agent.py") as run:
        run.wait_for(PROMPT)
        for word in (*PUSH, "/git", str(person.project.folder)):
            assert word in run.seen
        time.sleep(1)
        assert not person.repository.pushed
        run.type("yes\n")
        assert run.ended().out == "done\n"
    assert person.repository.pushed


def test_approving_once_settles_this_call(person: Person) -> None:
    """Seed: "Approving once settles this call": the next equal one is asked again."""
    person.agent(ESCALATE, times=2)
    with person.project.on_terminal("agent.py") as run:
        run.wait_for(PROMPT)
        run.type("yes\n")
        run.wait_for(PROMPT, count=2)
        run.type("no\n")
        ended = run.ended()
    assert ended.code == 1 and "said no" in ended.err


def test_approving_for_the_run_stops_asking_in_this_run(person: Person) -> None:
    """Seed: "so the same call stops asking", as far as one run goes."""
    person.agent(ESCALATE, times=3)
    with person.project.on_terminal("agent.py") as run:
        run.wait_for(PROMPT)
        run.type("yes run\n")
        assert run.ended().out == "done\n"
        assert run.seen.count(PROMPT) == 1


@pytest.mark.xfail(strict=True, raises=AssertionError, reason="there is no store of grants yet")
def test_approving_always_writes_a_grant(person: Person) -> None:
    """Seed: "approving always writes a grant so the same call stops asking", in later runs too."""
    person.agent({**ESCALATE, "escalation": {"timeout": "2s"}})
    with person.project.on_terminal("agent.py") as run:
        run.wait_for(PROMPT)
        run.type("yes always\n")
        assert run.ended().out == "done\n"
    assert person.project.run_agent().out == "done\n"


def test_headless_an_escalation_fails_closed_after_the_timeout(person: Person) -> None:
    """Seed: "Headless ... fails closed after the timeout": denied, with the reason, not before."""
    person.agent({**ESCALATE, "escalation": {"timeout": "2s"}})
    start = time.monotonic()
    ended = person.project.run_agent()
    assert time.monotonic() - start >= 2
    assert ended.code == 1 and "nobody can be asked here" in ended.err
    assert not person.repository.pushed


def test_the_timeout_is_30_seconds_by_default(make: Make, repository: Repository) -> None:
    """Seed: "(default 30 seconds)": still open at 29.9, denied at 30."""
    now = [1000.0]
    kernel = make(ESCALATE, clock=lambda: now[0])
    assert kernel.broker is not None

    async def main() -> str:
        outcome: list[str] = []

        async def push() -> None:
            try:
                await kernel.process.run(PUSH)
            except EscalationDenied as error:
                outcome.append(error.outcome)

        async with anyio.create_task_group() as group:
            group.start_soon(push)
            while not kernel.broker.pending():
                await anyio.sleep(0.01)
            now[0] += 29.9
            await anyio.sleep(0.2)
            assert kernel.broker.pending() and not outcome
            now[0] += 0.1
        return outcome[0]

    assert anyio.run(main) == "headless"
    assert not repository.pushed
