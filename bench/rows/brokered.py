"""A program that runs only through the supervisor, beside the same in a box made directly."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.boxes import Worker, axonkernel, warm
from bench.measure import by_turns, timed
from bench.session import Session
from bench.table import Row

__all__ = ["rows"]

_STATUS = ["git", "-C", "{repo}", "status", "--short"]
#: What runs in the agent's box: starts git once for each line.
_INSIDE = """
import subprocess, sys, time
for _ in sys.stdin:
    start_s = time.perf_counter()
    subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
    print(time.perf_counter() - start_s, flush=True)
"""


def rows(session: Session) -> Iterator[Row]:
    """``git status`` in a small repository: bare, boxed directly, and called from a box."""
    rounds = session.rounds(75)
    repo = session.room("brokered")
    words = [word.format(repo=repo) for word in _STATUS]
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    (repo / "a.txt").write_text("text\n")
    policy: dict[str, Any] = {
        "default": "deny",
        "fs": {"write": [str(repo)]},
        "shell": {"allow": ["git"]},
    }
    judged = {**policy, "shell": {"allow": ["git"], "args": {"git": {"deny": ["push --force*"]}}}}
    with warm(policy, command=words) as boxed, _inside(session.folder, judged, words) as called:
        actions = {
            "bare": timed(lambda: subprocess.run(words, check=True, capture_output=True)),
            "boxed directly": boxed.action("go"),
            "brokered": called.action("go"),
        }
        samples = by_turns(rounds, actions)
    medians = samples.medians
    note = ", ".join(f"{name} {took_s * 1e3:.1f} ms" for name, took_s in medians.items())
    ratio = samples.ratio("brokered", "boxed directly")
    yield Row("brokered `git status` from a box, beside it boxed directly", ratio, budget=3.0,
              n=rounds, note=note, medians=medians)  # fmt: skip


def _inside(folder: Path, policy: dict[str, Any], words: list[str]) -> Worker:
    path = folder / "brokered.json"
    path.write_text(json.dumps(policy))
    command = [sys.executable, "-ISc", _INSIDE, *words]
    return Worker([*axonkernel(), "exec", "--policy", str(path), "--quiet", "--", *command])
