"""The clock of a box while people are asked about it."""

from __future__ import annotations

from typing import Any, cast

from axonkernel.box.launch import BoxProcess
from axonkernel.broker.standstill import Standstill
from axonkernel.drops import Asking
from axonkernel.escalation import Answer, Question


class Box:
    """Notes when its clock stands still and when its terminal's keys are answers."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def pause(self) -> None:
        self.told.append("pause")

    def resume(self) -> None:
        self.told.append("resume")

    def hold(self) -> None:
        self.told.append("hold")

    def go_on(self) -> None:
        self.told.append("go on")


def test_two_who_ask_stop_one_clock() -> None:
    """A question about the network inside one about a program: the clock goes on after both."""
    box, still = Box(), Standstill()
    process, terminal = cast(BoxProcess, box), cast(Any, box)
    inner = Asking(lambda question: Answer("once"), terminal, still)
    with still.while_asking(process, terminal):
        assert inner(process, cast(Question, None)).outcome == "once"
        assert box.told == ["pause", "hold"]
    assert box.told == ["pause", "hold", "resume", "go on"]


def test_a_question_that_fails_lets_the_clock_go_on() -> None:
    """Whatever its end is."""
    box, still = Box(), Standstill()
    try:
        with still.while_asking(cast(BoxProcess, box)):
            raise KeyError
    except KeyError:
        assert box.told == ["pause", "resume"]
