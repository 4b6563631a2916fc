"""What the control groups cost, on a machine with systemd or else in the tests' lab."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import bench
from axonkernel.box.probe import probe
from bench.boxes import warm
from bench.measure import Absent, by_turns, run, timed
from bench.rows.warm import policy
from bench.session import Session
from bench.table import Row

__all__ = ["rows"]

_REPOSITORY = Path(bench.__file__).parent.parent
_LIMITS = {"memory": "1G", "pids": 100}
#: Seconds that the rows may take in the lab.
_LAB_S = 300.0


def rows(session: Session) -> Iterator[Row]:
    """What a scope adds, beside what ``systemd-run`` takes."""
    lacking = probe().lacking("limits.memory")
    if lacking is None:
        yield _measured(session)
    else:
        yield from _in_lab(session, f"{lacking.missing}: {lacking.detail or lacking.fix}")


def _measured(session: Session) -> Row:
    rounds = session.rounds(51)
    with warm(policy()) as free, warm(policy(limits=_LIMITS)) as held:
        actions = {
            "systemd-run": timed(lambda: run(("systemd-run", "--scope", "--quiet", "true"))),
            "boxed": free.action("go"),
            "boxed, limits": held.action("go"),
        }
        samples = by_turns(rounds, actions)
    return Row(
        "limits: what a scope over D-Bus adds, beside systemd-run",
        samples.beyond("boxed, limits", "boxed") / samples.medians["systemd-run"],
        budget=0.6,
        n=rounds,
        medians=samples.medians,
    )


def _in_lab(session: Session, missing: str) -> Iterator[Row]:
    """The same bench, run in a throw-away systemd."""
    sys.path.append(str(_REPOSITORY / "tests"))
    from lab.processes import LabUnavailable  # the tests' own, not a package
    from lab.systemd import SystemdLab

    output = "/root/limits.json"
    words = ["limits", "--scale", str(session.scale), "--output", output]
    try:
        with SystemdLab() as lab:
            argv = [sys.executable, "-m", "bench", *words]
            done = lab.run(argv, cwd=_REPOSITORY, timeout_s=_LAB_S)
            if done.returncode:
                raise Absent(f"limits need {missing}; in the lab: {done.stderr.strip()[-200:]}")
            found = json.loads(lab.get(output))["rows"]
    except LabUnavailable as error:
        raise Absent(f"limits need {missing}; no lab either: {error}") from error
    for row in found:
        row.pop("verdict")
        yield Row(**row)._replace(note=f"in a throw-away systemd: {row['note']}".rstrip(": "))
