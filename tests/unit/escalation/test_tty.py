"""The terminal decider, driven through a pseudo-terminal."""

from __future__ import annotations

import os
import pty
import termios
import threading
import time
from collections.abc import Callable, Iterator

import anyio
import pytest

from axonkernel.escalation import Answer, Question, Terminal

AskFor = Callable[..., Question]


class Person:
    """The other side of a terminal."""

    def __init__(self) -> None:
        self.master, self.slave = pty.openpty()
        self.path = os.ttyname(self.slave)
        self.seen = b""

    def type(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def wait_for(self, text: bytes, count: int = 1) -> None:
        deadline = time.monotonic() + 5
        while self.seen.count(text) < count:
            assert time.monotonic() < deadline, f"{text!r} not in {self.seen!r}"
            self.seen += os.read(self.master, 4096)

    def close(self) -> None:
        os.close(self.master)
        os.close(self.slave)


@pytest.fixture
def person() -> Iterator[Person]:
    person = Person()
    yield person
    person.close()


PROMPT = b"[no]: "


def _answer(person: Person, question: Question, typing: Callable[[], None]) -> Answer | None:
    thread = threading.Thread(target=typing)
    thread.start()
    try:
        return anyio.run(Terminal(person.path).decide, question)
    finally:
        thread.join()


@pytest.mark.parametrize(
    ("keys", "outcome", "scope"),
    [
        (b"y\n", "allowed", "once"),
        (b"yes\n", "allowed", "once"),
        (b"yes run\n", "allowed", "run"),
        (b"y\r", "allowed", "once"),
        (b"n\n", "denied", "once"),
        (b"no\n", "denied", "once"),
        (b"no run\n", "denied", "run"),
        (b"\n", "denied", "once"),
        (b"\x04", "denied", "once"),
    ],
)
def test_exact_answers_count(
    person: Person, ask_for: AskFor, keys: bytes, outcome: str, scope: str
) -> None:
    """yes, no, their run-wide forms; an empty line and end of file are no."""

    def typing() -> None:
        person.wait_for(PROMPT)
        person.type(keys)

    answer = _answer(person, ask_for(), typing)
    assert answer is not None
    assert (answer.outcome, answer.scope) == (outcome, scope)


@pytest.mark.parametrize("keys", [b"Y\n", b"\x1by\n", b" y\n", b"yy\n", b"yes please\n", b"ok\n"])
def test_anything_else_is_asked_again(person: Person, ask_for: AskFor, keys: bytes) -> None:
    """A near miss is neither a yes nor a final no: the exact answer after it counts."""

    def typing() -> None:
        person.wait_for(PROMPT)
        person.type(keys)
        person.wait_for(PROMPT, 2)
        person.type(b"yes\n")

    answer = _answer(person, ask_for(), typing)
    assert answer is not None and answer.allowed


def test_three_more_asks_then_no(person: Person, ask_for: AskFor) -> None:
    """After four lines that are no answer the answer is no."""

    def typing() -> None:
        for count in range(1, 5):
            person.wait_for(PROMPT, count)
            person.type(b"perhaps\n")

    answer = _answer(person, ask_for(), typing)
    assert answer is not None and answer.outcome == "denied"
    person.wait_for(b"taken as no")


def test_what_was_typed_before_the_question_is_dropped(person: Person, ask_for: AskFor) -> None:
    """Type-ahead does not approve."""
    person.type(b"yes\nyes\n")

    def typing() -> None:
        person.wait_for(PROMPT)
        person.type(b"no\n")

    answer = _answer(person, ask_for(), typing)
    assert answer is not None and answer.outcome == "denied"


def test_a_resize_while_waiting_changes_nothing(person: Person, ask_for: AskFor) -> None:
    """A window change in between is no input."""

    def typing() -> None:
        person.wait_for(PROMPT)
        termios.tcsetwinsize(person.slave, (40, 100))
        person.type(b"yes\n")

    answer = _answer(person, ask_for(), typing)
    assert answer is not None and answer.allowed


def test_a_settled_question_leaves_the_terminal(person: Person, ask_for: AskFor) -> None:
    """When it is cancelled the prompt says so and later keys go to nobody."""

    async def main() -> None:
        with anyio.move_on_after(0.3):
            await Terminal(person.path).decide(ask_for())

    anyio.run(main)
    person.wait_for(b"no longer waiting")


def test_without_a_terminal_it_is_not_available(tmp_path: object) -> None:
    """A path that is no terminal is no way to ask."""
    assert not Terminal("/dev/null").available()
    assert not Terminal(f"{tmp_path}/missing").available()


def test_a_terminal_is_available(person: Person) -> None:
    """A terminal that nobody else controls can be asked on."""
    assert Terminal(person.path).available()
