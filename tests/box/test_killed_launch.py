"""SIGKILL of any process of ours at any milestone of a launch: nothing ran, nothing is left."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from axonkernel.box.milestones import MILESTONES
from axonkernel.box.model import BoxPlan, NetPlan
from box.boxed import PYTHON
from box.plans import planned
from lab import processes
from lab.internet import Internet

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

KILLING = str(Path(__file__).with_name("killing.py"))
#: Those every box passes; a link and a scope have more.
COMMON = [name for name in MILESTONES if name not in ("linked", "built", "scoped", "confined")]
#: The first milestone, by number, at which there is such a process.
ABSENT_UNTIL = {"warden": 1, "bwrap": 1, "init": 2}
#: From here on the program may have run.
RELEASED = ("released", "running")
CODE = """
import os, time
open("out/ran", "w").close()
for _ in range(2):
    if os.fork() == 0: os.setsid()
time.sleep(60)
"""


@pytest.fixture
def kept(project: Path) -> str:
    """A plan with a network of its own, in a file."""
    return store(project, planned(project))


def store(project: Path, plan: BoxPlan) -> str:
    file = project.parent / "plan.json"
    file.write_text(json.dumps(plan))
    return str(file)


def launched(kept: str, milestone: str, victim: str, *, warm: bool, code: str = CODE) -> int:
    """The end of a supervisor of one box in which ``victim`` was killed."""
    words = [KILLING, kept, milestone, victim, str(int(warm)), "--", PYTHON, "-ISc", code]
    done = subprocess.run(
        [sys.executable, *words],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={"PYTHONPATH": str(processes.REPOSITORY), "PATH": processes.PATH},
        start_new_session=True,
        timeout=30,
        check=False,
    )
    assert b"Traceback" not in done.stderr, done.stderr
    return done.returncode


@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
def test_a_launch_that_nobody_kills_runs(kept: str, project: Path, warm: bool) -> None:
    """The twin of all below: every milestone is passed, the program runs to its end."""
    code = "open('out/ran', 'w'); raise SystemExit(7)"
    assert launched(kept, "", "none", warm=warm, code=code) == 7
    assert (project / "out/ran").exists()


def killed_everywhere(kept: str, project: Path, victim: str, *, warm: bool) -> None:
    ran = project / "out/ran"
    for milestone in COMMON[ABSENT_UNTIL.get(victim, 0) :]:
        ended = launched(kept, milestone, victim, warm=warm)
        assert ended != 0, milestone
        assert milestone in RELEASED or not ran.exists(), f"it ran after {milestone}"
        ran.unlink(missing_ok=True)


@pytest.mark.parametrize("victim", ["supervisor", "tree"])
def test_a_killed_launch_leaves_nothing(kept: str, project: Path, victim: str) -> None:
    """The supervisor, or every process at once, at each milestone."""
    killed_everywhere(kept, project, victim, warm=False)


@pytest.mark.deep
@pytest.mark.timeout(600)
@pytest.mark.parametrize("warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("victim", ["supervisor", "warden", "bwrap", "init", "tree"])
def test_whoever_is_killed_nothing_is_left(
    kept: str, project: Path, victim: str, warm: bool
) -> None:
    """Each process of a launch alone, from either kind of supervisor."""
    killed_everywhere(kept, project, victim, warm=warm)


def test_a_box_outlives_its_fork_server(kept: str, project: Path) -> None:
    """The fork server is not needed by a warden that is there: the box runs on."""
    code = "open('out/ran', 'w'); raise SystemExit(7)"
    for milestone in COMMON:
        assert launched(kept, milestone, "server", warm=True, code=code) == 7
        (project / "out/ran").unlink()


@pytest.mark.requires("net", "root")
def test_killed_while_its_link_is_made(internet: Internet, project: Path) -> None:
    """With pasta at its side: nothing ran, and no process of either is left; the twin runs."""
    net = NetPlan(allow=(("45.90.10.1", "tcp", "443"),), link="pasta")
    kept = store(project, planned(project)._replace(net=net))
    env = {"PYTHONPATH": str(processes.REPOSITORY)}
    for victim in ("supervisor", "tree", "warden", "bwrap", "init", "none"):
        code = CODE if victim != "none" else "open('out/ran', 'w'); raise SystemExit(7)"
        words = [KILLING, kept, "linked", victim, "0", "--", PYTHON, "-ISc", code]
        done = internet.run([sys.executable, *words], env=env, timeout_s=30)
        assert "Traceback" not in done.stderr, done.stderr
        assert (done.returncode == 7) is (victim == "none"), (victim, done)
        assert (project / "out/ran").exists() is (victim == "none"), victim
