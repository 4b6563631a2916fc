"""When ``exec`` may use a plan that it has kept."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from box.boxed import Boxed

pytestmark = pytest.mark.box


def trust(box: Boxed, *words: str) -> None:
    command = [sys.executable, "-P", "-m", "axonkernel", "trust", *words]
    subprocess.run(command, cwd=box.project, env=box.env, check=True, capture_output=True)


def test_trust_that_is_taken_back_counts_at_once(box: Boxed, box_cache: Path) -> None:
    """Also where the plan of the trusted file was kept; trusted again it runs again."""
    plans = box_cache / "axonkernel" / "plans"
    (box.project / "policy.toml").write_text('default = "deny"\n')
    trust(box)
    kept = set(plans.glob("*"))
    assert [box.exec(command=["echo", "ran"]).out for _ in range(2)] == [b"ran\n"] * 2
    assert len(set(plans.glob("*")) - kept) == 1
    trust(box, "--revoke")
    run = box.exec(command=["echo", "ran"])
    assert (run.code, run.out) == (78, b"") and "not trusted" in run.err
    trust(box)
    assert box.exec(command=["echo", "ran"]).out == b"ran\n"


def test_what_a_python_policy_imports_counts_at_once(box: Boxed) -> None:
    """A neighbour that is edited in place takes the variable away from the very next command."""
    neighbour = box.project / "rules.py"
    neighbour.write_text('NAMES = ["TOKEN"]\n')
    (box.project / "own.py").write_text(
        "from axonkernel import define_agent\nfrom rules import NAMES\n"
        'agent = define_agent("own", {"default": "deny", "env": {"allow": NAMES}})\n'
    )
    shown = ["sh", "-c", 'echo "got $TOKEN"']

    def run() -> bytes:
        return box.exec("--policy", "own.py", command=shown, env={"TOKEN": "x"}).out

    assert run() == run() == b"got x\n"
    neighbour.write_text("NAMES = []\n")
    assert run() == b"got \n"
