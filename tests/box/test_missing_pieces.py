"""What a machine lacks is named with the command that brings it, on every road to a box.

Each piece is really missing: its program is covered in a mount namespace of the command's
own, or the number of user namespaces is 0.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lab.agents import Ended, Project
from lab.lacking import PIECES, without
from lab.systemd import SystemdLab

pytestmark = [pytest.mark.box, pytest.mark.root]

FS: dict[str, Any] = {"fs": {"write": ["./out"]}}


class Lack(NamedTuple):
    """A policy that needs a piece, the field that is named, and what brings the piece."""

    policy: dict[str, Any]
    field: str
    missing: str
    fix: str


LACKS: dict[str, Lack] = {
    "bwrap": Lack(FS, "box", "bwrap", "install bubblewrap"),
    "nft": Lack({**FS, "net": {"allow": []}}, "net", "nft", "install nftables"),
    "pasta": Lack(
        {**FS, "net": {"allow": ["45.90.10.1:443"]}}, "net.link", "pasta", "install passt"
    ),
    "systemd": Lack(
        {**FS, "limits": {"memory": "200M"}},
        "limits.memory",
        "systemd",
        "run where systemd is the init system",
    ),
    "user namespaces": Lack(FS, "box", "user namespaces", "sysctl user.max_user_namespaces=15000"),
}
KERNEL = """
import json, sys
from axonkernel import AxonError, IsolationUnavailable, Kernel
with Kernel(json.load(open("policy.json")), audit="../log") as kernel:
    try:
        result = kernel.process.run_sync(["touch", "out/mark"])
        print(json.dumps({"exit": result.exit_code, "held_by": result.held_by}))
    except IsolationUnavailable as error:
        print(json.dumps([error.field, error.missing, error.fix]))
"""
HANDLER = "open('out/mark', 'w').close(); return 'ran'"
EXEC = ["-m", "axonkernel", "exec", "--policy", "policy.json", "--", "touch", "out/mark"]
ROADS = {
    "exec": [sys.executable, *EXEC],
    "kernel": [sys.executable, "kernel.py"],
    "agent": [sys.executable, "agent.py"],
    "run": [sys.executable, "-m", "axonkernel", "run", "--agent", "agent.py"],
}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "home")


def prepared(project: Project, policy: dict[str, Any]) -> None:
    project.write("policy.json", json.dumps(policy))
    project.write("kernel.py", KERNEL)
    project.agent(policy, HANDLER)
    (project.folder / "out").mkdir(exist_ok=True)


def ran(project: Project) -> bool:
    return (project.folder / "out" / "mark").exists()


def told_once(ended: Ended) -> str:
    """The one line on stderr, but for the switch that a command has to go on without."""
    assert "Traceback" not in ended.err
    line, *way = ended.err.splitlines()
    assert all("--best-effort ... runs without that wall" in each for each in way)
    assert len(way) <= 1
    return line


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("piece", PIECES)
def test_a_missing_piece_is_named_and_nothing_runs(project: Project, piece: str, road: str) -> None:
    """One line: the declared field, the piece, the command; exit 125 (a raised error)."""
    lack = LACKS[piece]
    prepared(project, lack.policy)
    ended = project.run(without(piece, ROADS[road]))
    if road == "kernel":
        field, missing, fix = ended.value
    else:
        assert (ended.code, ended.out) == (125, "")
        field = missing = fix = told_once(ended)
    assert lack.missing in missing and lack.fix in fix
    # A Python configuration is evaluated in a box, and may be what lacks one first.
    assert lack.field in field or (road == "run" and "a Python configuration" in field)
    assert not ran(project)


@pytest.mark.net
@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("piece", [piece for piece in PIECES if piece != "systemd"])
def test_where_nothing_is_missing_it_runs(project: Project, piece: str, road: str) -> None:
    """The positive twin: the very same policy and command."""
    prepared(project, LACKS[piece].policy)
    assert project.run(ROADS[road]).code == 0
    assert ran(project)


@pytest.mark.scope
@pytest.mark.parametrize("road", ROADS)
def test_where_systemd_runs_limits_are_held(lab: SystemdLab, road: str) -> None:
    """The positive twin of a missing systemd."""
    project = Project(Path(lab.folder()), lab.run, lab.put)
    lack = LACKS["systemd"]
    project.write("policy.json", json.dumps(lack.policy))
    project.write("kernel.py", KERNEL)
    project.agent(lack.policy, HANDLER)
    project.write("out/x", "")
    ended = project.run(ROADS[road])
    assert ended.code == 0, ended.err
    assert project.run(["test", "-e", "out/mark"]).code == 0


@pytest.mark.parametrize("road", ["exec", "run"])
def test_the_switch_that_is_named_goes_on_without_the_wall(project: Project, road: str) -> None:
    """--best-effort of exec and run, as the refusal says; the posture says what is not held."""
    prepared(project, LACKS["systemd"].policy)
    python, _m, module, command, *rest = ROADS[road]
    refused = project.run(without("systemd", [python, _m, module, command, *rest]))
    assert f"axonkernel {command} --best-effort ..." in refused.err
    assert not ran(project)
    ended = project.run(without("systemd", [python, _m, module, command, "--best-effort", *rest]))
    assert ended.code == 0 and ran(project), ended.err
    assert ended.posture["limits.memory"] == "unenforced"


#: What is still held when a piece is missing, and what is declared and not.
HELD: dict[str, set[str]] = {
    "bwrap": {"fs"},  # by Landlock
    "nft": {"fs"},
    "pasta": {"fs", "net"},
    "systemd": {"fs"},
    "user namespaces": {"fs"},
}
LOST = {
    "bwrap": set(),
    "nft": {"net"},
    "pasta": set(),  # nothing can be reached: that wall is rather too high
    "systemd": {"limits.memory"},
    "user namespaces": set(),
}
#: An agent stays in the process it was started in, which confines its programs only.
WITHOUT_BOX = ("bwrap", "user namespaces")
#: A Python configuration is evaluated in a closed box, whatever isolation it declares.
BEST_EFFORT = [
    (piece, road)
    for piece in PIECES
    for road in ROADS
    if road != "run" or piece in ("pasta", "systemd")
]


@pytest.mark.parametrize(("piece", "road"), BEST_EFFORT)
def test_best_effort_runs_and_says_what_is_not_held(
    project: Project, piece: str, road: str
) -> None:
    """The posture calls unenforced what nothing holds, and claims only walls that stand."""
    lack = LACKS[piece]
    prepared(project, {**lack.policy, "isolation": "best-effort"})
    ended = project.run(without(piece, ROADS[road]))
    assert ended.code == 0 and "Traceback" not in ended.err, ended.err
    assert ran(project)
    declared = {"fs", "net", "limits.memory"}
    if road == "kernel":
        assert declared & set(ended.value["held_by"]) == HELD[piece]
        return
    states = ended.posture
    held, lost = HELD[piece], LOST[piece]
    if road == "agent" and piece in WITHOUT_BOX:
        held, lost = lost, held
    assert {field for field in declared if states.get(field) == "enforced"} == held
    assert {field for field in declared if states.get(field) == "unenforced"} == lost
    assert lack.fix in ended.err


def test_an_answer_kept_elsewhere_is_not_believed(project: Project) -> None:
    """One home, first where boxes can be made, then where none can: best-effort goes without
    and says so, and where they can be made again there is one."""
    policy = {**FS, "isolation": "best-effort"}
    prepared(project, policy)
    without_box = []
    for argv in (ROADS["exec"], without("user namespaces", ROADS["exec"]), ROADS["exec"]):
        ended = project.run(argv)
        assert ended.code == 0, ended.err
        assert ran(project)
        (project.folder / "out" / "mark").unlink()
        without_box.append("no box: user namespaces is missing" in ended.err)
    assert without_box == [False, True, False]
