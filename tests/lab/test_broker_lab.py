"""Limits of brokered programs, under a systemd of our own."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from lab.labbox import LabBox
from lab.systemd import SystemdLab

pytestmark = [
    pytest.mark.requires("lab", "scope", "box"),
    pytest.mark.usefixtures("lab_leftovers"),
]

HOG = "x = b'x' * 200_000_000; print('survived')"


@pytest.fixture
def box(lab: SystemdLab) -> Iterator[LabBox]:
    made = LabBox(lab, None, None)
    yield made
    made.close()


def test_memory_of_a_brokered_program_is_limited(box: LabBox, lab: SystemdLab) -> None:
    """It is killed at the limit of the policy, and the caller is told which; less is fine."""
    policy = {
        "default": "deny",
        "fs": {"read": [box.project]},
        "shell": {"allow": ["python3"], "args": {"python3": {"deny": ["never"]}}},
        "limits": {"memory": "100M"},
    }
    lab.put(f"{box.state}/policy.json", json.dumps(policy))
    script = f'python3 -c "print(1)"; python3 -c "{HOG}"; echo code=$?'
    run = box.exec("--policy", f"{box.state}/policy.json", command=["bash", "-c", script])
    assert run.out.split() == ["1", "code=137"], run.err
    assert "the memory limit ended it" in run.err
