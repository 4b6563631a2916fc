"""Work done inside a box, beside the same work outside."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import bench
from bench.boxes import Worker, axonkernel
from bench.measure import by_turns
from bench.session import Session
from bench.table import Row

__all__ = ["rows"]


def rows(session: Session) -> Iterator[Row]:
    """Four kinds of work; the figure is the speed inside as a part of the speed outside."""
    folder = session.room("inside")
    file = folder / "data"
    grants = ["--write", str(folder), "--allow", "true"]
    boxed = [*axonkernel(), "exec", "--quiet", *grants, "--", *_worker_words()]
    library = os.path.dirname(os.__file__)
    true = os.path.realpath(shutil.which("true") or "/usr/bin/true")
    tasks = {
        "tree walk": (f"walk\t{library}", 0.95, 41),
        "fork and exec": (f"spawn\t{true}\t100", 0.95, 41),
        "200 MB write": (f"write\t{file}\t200", 0.95, 21),
        "open/stat loop": (f"look\t{folder}\t20000", 0.90, 41),
    }
    with _one_processor(), Worker(_worker_words()) as outside, Worker(boxed) as inside:
        for what, (task, budget, full) in tasks.items():
            rounds = session.rounds(full)
            actions = {"outside": outside.action(task), "inside": inside.action(task)}
            samples = by_turns(rounds, actions)
            yield Row(
                f"work inside, as a part of bare speed: {what}",
                samples.ratio("outside", "inside"),
                budget=budget,
                at_least=True,
                n=rounds,
                medians=samples.medians,
            )


@contextlib.contextmanager
def _one_processor() -> Iterator[None]:
    """What starts meanwhile, a box too, runs on one processor and stays there.

    Two like workers that the scheduler places as it likes differ by up to a quarter, which is
    more than any box costs: each has another neighbour, another cache and another clock.
    """
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(allowed)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, allowed)


def _worker_words() -> list[str]:
    """The words that start the workload, the same inside and outside."""
    text = Path(bench.__file__).with_name("workload.py").read_text(encoding="utf-8")
    return [os.path.realpath(sys.executable), "-IS", "-c", text]
