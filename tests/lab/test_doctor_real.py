"""``axonkernel doctor`` where all walls hold, and for a user who may lack one."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.systemd import SystemdLab

pytestmark = [pytest.mark.requires("lab", "scope", "box"), pytest.mark.usefixtures("lab_leftovers")]

COMMAND = "import sys; from axonkernel.cli import main; sys.exit(main(['doctor', '--json']))"


def doctor(lab: SystemdLab, user: int | None = None) -> tuple[int, dict[str, Any]]:
    root = str(Path(__file__).parents[2])
    cache = lab.folder(user=user)
    env = {"PYTHONPATH": root, "XDG_CACHE_HOME": cache}
    done = lab.run([sys.executable, "-c", COMMAND], user=user, env=env)
    lab.run(["rm", "-r", cache])
    assert not done.stderr, done.stderr
    data = json.loads(done.stdout)
    return done.returncode, {piece["name"]: piece for piece in data["pieces"]}


@pytest.mark.usefixtures("lab_internet")
def test_root_has_every_wall(lab: SystemdLab) -> None:
    """Exit code 0: boxes, tables, links and limits all did what they must."""
    code, pieces = doctor(lab)
    lacking = {name: piece for name, piece in pieces.items() if not piece["ok"]}
    assert not {name for name, piece in lacking.items() if not piece["optional"]}, lacking
    assert code == 0
    assert pieces["limits"]["detail"] == "system manager"


def test_a_machine_without_a_network_is_told_so(lab: SystemdLab) -> None:
    """pasta is there and has nothing to link to: installing it again would not help."""
    code, pieces = doctor(lab)
    assert code == 1
    assert pieces["link"]["missing"] == "a network"
    assert pieces["link"]["fix"] == "give this machine a default route"


@pytest.mark.requires("user")
def test_an_ordinary_user_is_told_the_truth(lab: SystemdLab) -> None:
    """Boxes hold; limits hold or are missing with a reason, as the manager really has it."""
    code, pieces = doctor(lab, lab.uid)
    assert all(pieces[name]["ok"] for name in ("box", "seccomp", "gate", "table")), pieces
    limits = pieces["limits"]
    # On cgroup v1 the manager is there, and has no controllers.
    assert limits["ok"] or limits["missing"] == "a control group for memory, cpu, pids"
    assert code == (0 if limits["ok"] and pieces["link"]["ok"] else 1)
