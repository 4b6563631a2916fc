"""The demonstration from beginning to end, as a value."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from axonkernel.box.probe import Probe, probe
from axonkernel.demo.attempts import ATTEMPTS, LIMITS, WALLS, Attempt
from axonkernel.demo.judge import REQUIRED, Row, WallState, judge, walls
from axonkernel.demo.runs import Run, run_agent, run_limit, run_mediator
from axonkernel.demo.stage import Stage

__all__ = ["Shown", "show"]

Progress = Callable[[str], None]


class Shown(NamedTuple):
    """What came of the demonstration.

    Arguments:
        complaint: what the agent's run said on stderr, for when it went wrong.
    """

    posture: tuple[tuple[str, str, str, str], ...]
    rows: tuple[Row, ...]
    walls: Mapping[str, WallState]
    refused: tuple[str, ...]
    audit_intact: bool
    complaint: str

    @property
    def held(self) -> int:
        """How many walls held."""
        return sum(state == "held" for state in self.walls.values())

    @property
    def ok(self) -> bool:
        """Every row is as expected, and the walls that no box is without have held."""
        required = all(self.walls[name] in ("held", "held in part") for name in REQUIRED)
        broken = "BROKEN" in self.walls.values()
        return required and not broken and self.audit_intact and all(r.good for r in self.rows)

    def as_data(self) -> dict[str, Any]:
        """The same as JSON data."""
        names = ("field", "state", "by", "note")
        return {
            "posture": [dict(zip(names, row, strict=True)) for row in self.posture],
            "rows": [row._asdict() for row in self.rows],
            "walls": dict(self.walls),
            "packets_refused": list(self.refused),
            "audit_intact": self.audit_intact,
            "held": self.held,
            "of": len(self.walls),
            "ok": self.ok,
        }


def show(progress: Progress) -> Shown:
    """Try everything, in boxes of a temporary project that is gone afterwards.

    Arguments:
        progress: told what is going on, in a few words, again and again.
    """
    progress("trying what this machine can hold")
    found = probe(refresh=True)
    fixes = {attempt.key: _fix(attempt, found) for attempt in (*ATTEMPTS, *LIMITS)}
    progress("building a project with a secret in it")
    boxed = found.lacking("box") is None
    with Stage(boxed=boxed) as stage:
        run = _agent(stage, boxed, [key for key, fix in fixes.items() if fix], progress)
        # What is seen outside is seen after the box has ended, when nothing can change any more.
        rows = [judge(a, stage, run, run.heard.get(a.key), fixes[a.key]) for a in ATTEMPTS]
        complaints = [run.complaint]
        for attempt in LIMITS:
            progress(attempt.text)
            heard, complaint = None, ""
            if not fixes[attempt.key]:
                heard, complaint = run_limit(stage, attempt)
            complaints.append(complaint)
            rows.append(judge(attempt, stage, run, heard, fixes[attempt.key]))
    rows.sort(key=lambda row: list(WALLS).index(row.wall))
    states = walls(rows, run)
    return Shown(run.posture, tuple(rows), states, run.refused, run.intact, "".join(complaints))


def _agent(stage: Stage, boxed: bool, skip: list[str], progress: Progress) -> Run:
    done = 0

    def heard(attempt: Attempt) -> None:
        nonlocal done
        done += 1
        progress(f"{done} of {len(ATTEMPTS)}  {attempt.wall}: {attempt.text}")

    make = run_agent if boxed else run_mediator
    return make(stage, skip, heard)


def _fix(attempt: Attempt, found: Probe) -> str:
    """How to get what an attempt needs and this machine lacks; "" when it lacks nothing."""
    if "git" in attempt.text.split()[:1] and shutil.which("git") is None:
        return "apt-get install git"
    if attempt.mediated:
        return ""
    field = WALLS[attempt.wall]
    piece = found.lacking(field if field not in ("", "seccomp", "shell.args") else "box")
    if piece is not None:
        return piece.fix
    piece = found.lacking(attempt.needs) if attempt.needs else None
    return "" if piece is None else f"{attempt.needs} needs {piece.missing}: {piece.fix}"
