"""SIGKILL at the milestones of a launch with a scope: nothing ran, and systemd keeps nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from axonkernel.box.milestones import MILESTONES
from box.boxed import PYTHON
from lab.processes import PATH, REPOSITORY
from lab.systemd import SystemdLab

pytestmark = [
    pytest.mark.requires("lab", "scope", "box"),
    pytest.mark.usefixtures("lab_leftovers"),
]

KILLING = str(Path(REPOSITORY, "tests/box/killing.py"))
#: Write the plan of a box with limits for the current folder.
PLAN = """
import json, os
from axonkernel.box.host import Ask
from axonkernel.box.prepare import prepare
from axonkernel.policy.parse import parse
here = os.getcwd()
data = {"default": "deny", "fs": {"read": ["."], "write": ["./out"]},
        "shell": {"allow": ["/usr/bin/python3"]}, "limits": {"memory": "200M", "pids": 50}}
policy = parse(data, base=here, home="/root", source="test")
plan = prepare(policy, Ask("call", here, program="/usr/bin/python3"), env={})
json.dump(plan, open("plan.json", "w"))
os.mkdir("out")
"""
CODE = "import os, time; open('out/ran', 'w'); os.fork() or os.setsid(); time.sleep(60)"
RELEASED = ("released", "running")
#: Those of a box without a link; "asked" comes before there is anything but a warden.
PASSED = [name for name in MILESTONES if name not in ("linked", "asked")]


class Launches:
    """Launches in a folder of the lab, by :data:`KILLING`."""

    def __init__(self, lab: SystemdLab) -> None:
        self.lab = lab
        self.folder = lab.folder()
        self.env = {
            "PATH": PATH,
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HOME": "/root",
            "XDG_STATE_HOME": f"{self.folder}/state",
        }
        done = lab.run([sys.executable, "-c", PLAN], cwd=self.folder, env=self.env)
        assert done.returncode == 0, done.stderr

    def ended(self, milestone: str, victim: str, *, warm: bool, code: str = CODE) -> int:
        """Exit code of one supervisor."""
        words = [KILLING, "plan.json", milestone, victim, str(int(warm)), "--"]
        argv = [sys.executable, *words, PYTHON, "-ISc", code]
        done = self.lab.run(argv, cwd=self.folder, env=self.env, timeout_s=40)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode

    def ran(self) -> bool:
        """Whether the program has run; forgets it."""
        return self.lab.run(["rm", "out/ran"], cwd=self.folder).returncode == 0

    def killed(self, milestone: str, victim: str, *, warm: bool) -> None:
        assert self.ended(milestone, victim, warm=warm) != 0
        assert not self.ran() or milestone in RELEASED, f"it ran after {milestone}"

    def close(self) -> None:
        # The next launch tidies up behind kernels that were killed.
        code = "open('out/ran', 'w'); raise SystemExit(7)"
        for warm in (False, True):
            assert self.ended("", "none", warm=warm, code=code) == 7
            assert self.ran()
        self.lab.run(["rm", "-r", self.folder])


@pytest.fixture
def launches(lab: SystemdLab) -> Iterator[Launches]:
    made = Launches(lab)
    yield made
    made.close()


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_a_tree_killed_around_its_scope(launches: Launches, warm: bool) -> None:
    """Every process at once, just before and just after the scope is made."""
    for milestone in ("built", "scoped"):
        launches.killed(milestone, "tree", warm=warm)


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("victim", ["supervisor", "warden", "bwrap", "init", "tree"])
def test_whoever_is_killed_systemd_keeps_nothing(
    launches: Launches, victim: str, warm: bool
) -> None:
    """Each process of a launch alone, at every milestone there is."""
    for milestone in PASSED:
        if victim == "init" and milestone == "spawned":
            continue  # there is none yet
        launches.killed(milestone, victim, warm=warm)


def test_the_plan_is_one_with_limits(launches: Launches) -> None:
    """What is launched here asks for a scope."""
    plan = json.loads(launches.lab.get(f"{launches.folder}/plan.json"))
    assert 200 << 20 in next(part for part in plan if isinstance(part, list) and 200 << 20 in part)
