"""``axonkernel demo`` on a machine that has every wall, and for its ordinary user."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.systemd import SystemdLab

pytestmark = [
    pytest.mark.requires("lab", "scope", "box", "net"),
    pytest.mark.usefixtures("lab_internet", "lab_leftovers"),
]

ROOT = Path(__file__).parents[2]


def demo(lab: SystemdLab, *words: str, user: int | None = None) -> subprocess.CompletedProcess[str]:
    cache = lab.folder(user=user)
    done = lab.run(
        [sys.executable, "-m", "axonkernel", "demo", *words],
        user=user,
        env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "XDG_CACHE_HOME": cache},
        timeout_s=100,
    )
    lab.run(["rm", "-r", cache])
    return done


def outcomes(done: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    return {row["attempt"]: row for row in json.loads(done.stdout)["rows"]}


def test_every_wall_holds(lab: SystemdLab) -> None:
    """All of them, limits included; each limit ends its program before it is past it."""
    done = demo(lab, "--json")
    shown = json.loads(done.stdout)
    assert set(shown["walls"].values()) == {"held"}, done.stdout
    assert (done.returncode, shown["held"], shown["ok"]) == (0, shown["of"], True)
    assert all(row["here"] and row["good"] for row in shown["rows"])
    rows = outcomes(done)
    killed = rows["take 256 MB, of 64"]["outcome"]
    assert killed.startswith("killed after ") and 0 < int(killed.split()[2]) <= 64
    forks = rows["fork 100 times, of 20"]["outcome"]
    assert forks.endswith(" forks, then no more") and 0 < int(forks.split()[0]) <= 20
    assert shown["packets_refused"] == ["203.0.113.10:80/tcp"]


def test_the_last_line_counts_them(lab: SystemdLab) -> None:
    """The table is what ``make demo`` shows; no colour where nobody looks."""
    done = demo(lab)
    lines = done.stdout.splitlines()
    assert (done.returncode, lines[-1]) == (0, "11 of 11 walls")
    assert "\x1b" not in done.stdout + done.stderr
    assert "not here" not in done.stdout


@pytest.mark.requires("user")
def test_an_ordinary_user_sees_the_same(lab: SystemdLab) -> None:
    """Without privilege all but what the user manager or the link cannot hold."""
    done = demo(lab, "--json", user=lab.uid)
    shown = json.loads(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr
    lacking = {name for name, state in shown["walls"].items() if state != "held"}
    assert lacking <= {"memory", "process count"}
    assert shown["ok"]
