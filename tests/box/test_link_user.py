"""A networked box whose agent is another user than the supervisor: root's usual case."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.requires("box", "net", "root"),
    pytest.mark.usefixtures("leftovers"),
]

ROOT = Path(__file__).parents[2]
SOMEBODY = 12345
PROGRAM = """
import json, os, socket
def code(port):
    with socket.socket() as s:
        s.settimeout(2)
        return s.connect_ex(("203.0.113.10", port))
names = [line.split(":")[0].strip() for line in open("/proc/net/dev")][2:]
print(json.dumps({"uid": os.getuid(), "links": names, "refused": code(80)}))
"""


@pytest.mark.parametrize("owner", [0, SOMEBODY])
def test_the_link_is_there_for_any_user(tmp_path: Path, owner: int) -> None:
    """The box has its link and its table, whoever owns it, and the agent is that user."""
    project = tmp_path / "project"
    project.mkdir()
    os.chown(project, owner, owner)
    tmp_path.chmod(0o711)
    for folder in tmp_path.parents[:2]:
        folder.chmod(folder.stat().st_mode | 0o011)
    kept = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CACHE", "STATE", "CONFIG")}
    grants = ["--write", str(project), "--net", "203.0.113.10:443"]
    done = subprocess.run(
        [sys.executable, "-m", "axonkernel", "exec", *grants, "--", sys.executable, "-c", PROGRAM],
        env={**os.environ, **kept, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["uid"] == owner
    assert len(said["links"]) == 2 and "lo" in said["links"]
    assert said["refused"] == 111  # ECONNREFUSED: the table answered, not the lack of a route
