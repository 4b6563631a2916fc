"""``axonkernel demo``: what it shows is what happened, and its hostile agent is in earnest."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from axonkernel.box.probe import Piece, Probe
from axonkernel.demo import show as showing
from axonkernel.demo.attempts import ATTEMPTS, LIMITS, WALLS, Attempt
from axonkernel.demo.judge import REQUIRED, judge, walls
from axonkernel.demo.runs import Run
from axonkernel.demo.scene import Heard
from axonkernel.demo.stage import Stage

ROOT = Path(__file__).parents[2]
DEMO = [sys.executable, "-m", "axonkernel", "demo"]


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    """Everything the demo could leave behind would be found in tmp_path."""
    kept = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CACHE", "STATE", "CONFIG")}
    (tmp_path / "tmp").mkdir()
    return {**os.environ, **kept, "PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path / "tmp")}


@pytest.fixture
def stage() -> Iterator[Stage]:
    with Stage(boxed=False) as stage:
        yield stage


def attempt(key: str) -> Attempt:
    return next(each for each in ATTEMPTS if each.key == key)


def run(*fields: str, denials: tuple[str, ...] = ()) -> Run:
    """A run in which these fields of the posture were enforced."""
    posture = tuple((field, "enforced", "", "") for field in fields)
    return Run({}, posture, frozenset(denials), (), True, "")


# -- the whole of it ------------------------------------------------------------------------


@pytest.mark.requires("box", "net")
@pytest.mark.usefixtures("leftovers")
def test_the_walls_hold(env: dict[str, str], tmp_path: Path) -> None:
    """Every row is as expected, a lacking wall is named with its cure, nothing is left."""
    start = time.monotonic()
    done = subprocess.run([*DEMO, "--json"], env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - start < 45
    shown = json.loads(done.stdout)
    assert all(row["good"] for row in shown["rows"]) and shown["audit_intact"]
    rows: dict[str, Any] = {row["attempt"]: row for row in shown["rows"]}
    for name, state in shown["walls"].items():
        here = [row["here"] for row in shown["rows"] if row["wall"] == name]
        some = "held in part" if any(here) else "not here"
        assert state == ("held" if all(here) else some)
        assert name not in REQUIRED or state.startswith("held")
    assert all(row["outcome"].startswith("not here: ") for row in rows.values() if not row["here"])
    # The same words are refused on both levels.
    assert rows["git tag -d v1.0"]["layer"] == "mediator"
    assert rows["git tag -d v1.0, by subprocess"]["layer"] == "broker"
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.requires("box", "net")
def test_the_table(env: dict[str, str]) -> None:
    """Posture on top, 100 columns, the count of walls last, no colour in a pipe."""
    done = subprocess.run(DEMO, env=env, capture_output=True, text=True, timeout=100)
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stdout
    assert lines[0].startswith("Posture")
    assert max(map(len, lines)) <= 100
    assert re.fullmatch(rf"\d+ of {len(WALLS)} walls", lines[-1])
    assert "\x1b" not in done.stdout and done.stderr == ""


@pytest.mark.requires("box", "net")
@pytest.mark.parametrize("no_color", [False, True])
def test_colours_on_a_terminal_only(env: dict[str, str], no_color: bool) -> None:
    """A terminal gets colours and progress; NO_COLOR takes the colours away again."""
    env = {**env, "TERM": "xterm", **({"NO_COLOR": "1"} if no_color else {})}
    if not no_color:
        env.pop("NO_COLOR", None)
    ours, theirs = pty.openpty()
    process = subprocess.Popen(DEMO, env=env, stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    said = b""
    try:
        while part := os.read(ours, 65536):
            said += part
    except OSError:  # how a terminal ends
        pass
    finally:
        os.close(ours)
    assert process.wait(30) == 0, said
    assert b"\x1b[2K" in said and f"of {len(ATTEMPTS)}".encode() in said
    assert (b"\x1b[32m" in said) is not no_color


@pytest.mark.requires("box", "net")
@pytest.mark.usefixtures("leftovers")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_interrupted_demo_leaves_nothing(
    env: dict[str, str], tmp_path: Path, number: signal.Signals
) -> None:
    """Stopped in the middle it takes its project, its listeners and its boxes along."""
    pipe = subprocess.PIPE
    process = subprocess.Popen(DEMO, env=env, stdout=pipe, stderr=pipe, start_new_session=True)
    deadline = time.monotonic() + 20
    while not list((tmp_path / "tmp").glob("*/project/output/report.md")):
        assert time.monotonic() < deadline and process.poll() is None
        time.sleep(0.02)
    process.send_signal(number)
    said, complaint = process.communicate(timeout=20)
    assert process.returncode == 128 + number, complaint
    assert said == b"" and b"Traceback" not in complaint
    assert not list((tmp_path / "tmp").iterdir())


# -- the agent is in earnest ----------------------------------------------------------------

#: What harms nobody where there is no wall.
HARMLESS = (
    "read-secret-below", "list-home", "write-outside-below", "plant-hook", "own-loopback",
    "connect", "connect-abstract", "programs", "delete-tag-below", "variable", "environment",
    "kill", "set-uid",
)  # fmt: skip
UNBOXED = """
import json, sys
from axonkernel.demo.attempts import ATTEMPTS, hear
from axonkernel.demo.scene import Scene
scene = Scene(*json.loads(sys.argv[1]))
for attempt in ATTEMPTS:
    if attempt.key in sys.argv[2:]:
        print(json.dumps(hear(attempt, None, scene)))
"""


def unboxed(stage: Stage, *keys: str) -> dict[str, Heard]:
    """What comes of attempts that no wall is around."""
    done = subprocess.run(
        [sys.executable, "-c", UNBOXED, json.dumps(stage.scene([])), *keys],
        env=stage.environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    found = [Heard(*json.loads(line)) for line in done.stdout.splitlines()]
    assert [heard.key for heard in found] == list(keys), done.stderr
    return {heard.key: heard for heard in found}


def test_without_a_box_it_gets_through(stage: Stage) -> None:
    """Each harmless attempt takes effect where there is no wall, and is seen to."""
    found = unboxed(stage, *HARMLESS)
    missed = [key for key in HARMLESS if not attempt(key).effect(stage, found[key])]
    assert not missed, {key: found[key] for key in missed}


def test_without_a_box_a_process_stays_behind(stage: Stage) -> None:
    """It goes on writing after its parent has ended, and is seen to."""
    heard = unboxed(stage, "stay")["stay"]
    try:
        assert attempt("stay").effect(stage, heard)
    finally:
        os.kill(int(heard.loot), signal.SIGKILL)
    time.sleep(0.1)
    assert not attempt("stay").effect(stage, heard)


def test_an_untouched_stage_shows_no_effect(stage: Stage) -> None:
    """The positive twin: nothing is seen before anything was tried."""
    for each in ATTEMPTS:
        assert not each.effect(stage, Heard(each.key, False, "EPERM")), each.key


# -- the judge ------------------------------------------------------------------------------


def test_a_wall_with_a_hole_is_broken(stage: Stage) -> None:
    """The secret in the agent's hands makes its row bad, its wall broken and the demo fail."""
    tried = attempt("list-home")
    for loot, good in ((stage.key_name, False), ("nothing", True)):
        row = judge(tried, stage, run("fs"), Heard(tried.key, True, "done", loot), "")
        assert row.good is good
        assert walls([row], run("fs"))["files"] == ("held" if good else "BROKEN")


def test_the_agents_word_is_not_enough_for_a_denial(stage: Stage) -> None:
    """A denial counts as the mediator's only where it was recorded outside the box."""
    tried = attempt("read-secret")
    heard = Heard(tried.key, False, "fs.read", "", "0123456789abcdef")
    assert judge(tried, stage, run("fs", denials=(heard.decision,)), heard, "").good
    forged = judge(tried, stage, run("fs"), heard, "")
    assert (forged.good, forged.layer) == (False, "unrecorded")


def test_a_field_that_is_not_enforced_holds_nothing(stage: Stage) -> None:
    """An attempt may fail by luck; the wall counts only when the posture has it."""
    tried = attempt("list-home")
    row = judge(tried, stage, run(), Heard(tried.key, True, "done"), "")
    assert row.layer == "not enforced"
    assert walls([row], run())["files"] == "BROKEN"


def test_a_wall_that_could_not_all_be_tried_is_held_in_part(stage: Stage) -> None:
    """What is not shown is not counted as held; a hole in the rest is one all the same."""
    absent, below = attempt("connect-port"), attempt("connect")
    missing = judge(absent, stage, run("net"), None, "net.link needs x: get x")
    for heard, state in (("ECONNREFUSED", "held in part"), ("", "BROKEN")):
        tried = judge(below, stage, run("net"), Heard(below.key, not heard, heard), "")
        assert walls([tried, missing], run("net"))["network"] == state
    assert walls([missing], run("net"))["network"] == "not here"


def test_a_machine_without_a_link_is_told() -> None:
    """Only the row that needs one names it and its cure."""
    names = ("linux", "bwrap", "userns", "namespaces", "box", "seccomp", "gate", "table", "limits")
    here = [Piece(name, True) for name in names]
    link = Piece("link", False, "a network", "no route", "give this machine a default route")
    found = Probe((*here, link))
    fixes = {each.key: showing._fix(each, found) for each in (*ATTEMPTS, *LIMITS)}
    told = {key: fix for key, fix in fixes.items() if fix}
    fix = "net.link needs a network: give this machine a default route"
    assert told == {"connect-port": fix}
    assert showing._fix(attempt("connect-port"), Probe((*here, Piece("link", True)))) == ""


def test_silence_is_no_success(stage: Stage) -> None:
    """An agent that died before an attempt has not shown anything."""
    row = judge(attempt("kill"), stage, run(), None, "")
    assert (row.good, row.outcome) == (False, "no answer")


def test_a_machine_without_boxes_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the mediator does is shown, all else is `not here` with the cure, and it fails."""
    fix = "apt-get install bubblewrap"
    lacking = Probe((Piece("linux", True), Piece("box", False, "bwrap", "not found", fix)))
    monkeypatch.setattr(showing, "probe", lambda *, refresh: lacking)
    shown = showing.show(lambda text: None)
    assert (shown.ok, shown.held) == (False, 0)
    assert set(shown.walls.values()) == {"not here"}
    made = [row for row in shown.rows if row.here]
    assert made and all(row.good and row.mediated for row in made), made
    rest = [row for row in shown.rows if not row.here]
    assert rest and {row.outcome for row in rest} == {f"not here: {fix}"}
