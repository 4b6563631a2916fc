"""What was heard, held against what was seen and what was expected."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

from axonkernel.demo.attempts import WALLS, Attempt
from axonkernel.demo.runs import Run
from axonkernel.demo.scene import Heard
from axonkernel.demo.stage import Stage

__all__ = ["REQUIRED", "Row", "WallState", "judge", "walls"]

#: Without these the demonstration has failed, whatever the machine lacks.
REQUIRED = ("files", "network", "programs", "environment", "system calls")

#: In part: what could be tried was held, and some of it could not be tried here.
WallState = Literal["held", "held in part", "not here", "BROKEN"]


class Row(NamedTuple):
    """One line of the table.

    Arguments:
        layer: who answered; "" when the attempt could not be made.
        good: whether it is as expected; one that could not be made is, too.
        here: whether it was made.
    """

    wall: str
    attempt: str
    layer: str
    outcome: str
    expected: str
    good: bool
    here: bool = True
    mediated: bool = False


def judge(attempt: Attempt, stage: Stage, run: Run, heard: Heard | None, fix: str) -> Row:
    """The row of one attempt.

    Arguments:
        heard: None when nothing was heard of it.
        fix: how to get what it needs and this machine lacks; "" when it lacks nothing.
    """
    if fix:
        outcome = f"not here: {fix}"
        return Row(attempt.wall, attempt.text, "", outcome, attempt.expected, True, False)
    if heard is None:
        outcome = "no answer"
        return Row(attempt.wall, attempt.text, "", outcome, attempt.expected, False)
    effect = attempt.effect(stage, heard)
    wanted = attempt.expected == "allowed"
    layer = _layer(attempt, run, heard, effect)
    good = effect == wanted and layer != "unrecorded"
    outcome = _outcome(attempt, heard, effect)
    return Row(
        attempt.wall, attempt.text, layer, outcome, attempt.expected, good,
        mediated=attempt.mediated,
    )  # fmt: skip


def walls(rows: Iterable[Row], run: Run) -> dict[str, WallState]:
    """The state of each wall: held when the machine says so and nothing got past it."""
    states: dict[str, WallState] = {}
    found = list(rows)
    for wall, field in WALLS.items():
        below = [r for r in found if r.wall == wall and not r.mediated and r.expected == "refused"]
        if not any(row.here for row in below):
            states[wall] = "not here"
        elif not all(row.good for row in below) or not _enforced(field, run):
            states[wall] = "BROKEN"
        else:
            states[wall] = "held" if all(row.here for row in below) else "held in part"
    return states


def by_field(run: Run) -> Mapping[str, tuple[str, str, str, str]]:
    """The rows of the posture by their field."""
    return {row[0]: row for row in run.posture}


def as_data(row: Row) -> dict[str, Any]:
    """A row as JSON data."""
    return row._asdict()


def _enforced(field: str, run: Run) -> bool:
    return not field or by_field(run).get(field, ("", "unenforced"))[1] == "enforced"


def _layer(attempt: Attempt, run: Run, heard: Heard, effect: bool) -> str:
    if heard.decision:
        # Its own word is not enough: the record was written on this side of the wall.
        return "mediator" if heard.decision in run.denials else "unrecorded"
    if attempt.mediated:
        return "mediator" if effect else "tool"
    if effect and attempt.expected != "allowed":
        return "nobody"
    return _LAYERS[attempt.wall] if _enforced(WALLS[attempt.wall], run) else "not enforced"


#: Short names of what holds each wall, as the posture has them at length.
_LAYERS = {
    "files": "mount namespace",
    "network": "network namespace",
    "programs": "program wall",
    "words": "broker",
    "environment": "new environment",
    "processes": "pid namespace",
    "system calls": "seccomp filter",
    "wall clock": "supervisor's clock",
    "disk": "size of /tmp",
    "memory": "control group",
    "process count": "control group",
}


def _outcome(attempt: Attempt, heard: Heard, effect: bool) -> str:
    if effect:
        return "got through" if attempt.expected != "allowed" else "done"
    if heard.ok:
        return attempt.missed
    return heard.said
