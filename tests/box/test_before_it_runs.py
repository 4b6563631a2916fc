"""What happens between the making of a box and its program's first instruction."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.requires("box")

ROOT = str(Path(__file__).resolve().parents[2])
#: A small process, as the command line is, that forks its warden.
SCRIPT = """
import json, os, signal, sys
from axonkernel.box import launch
from axonkernel.box.host import Ask
from axonkernel.box.model import Command
from axonkernel.box.prepare import create, prepare
from axonkernel.paths import canonical_policy
from axonkernel.policy.parse import parse

def before(box):
    assert not os.path.exists("out/ran")
    match sys.argv[1]:
        case "signal": box.signal(signal.SIGTERM)
        case "kill": box.kill()
        case "raise": raise RuntimeError("not today")

warden = launch.fork_warden()
here = os.getcwd()
data = {"default": "deny", "fs": {"write": ["./out"]}, "shell": {"allow": ["touch"]}}
policy = canonical_policy(parse(data, base=here, home=here, source="test").closed())
plan = prepare(policy, Ask("call", here, program="touch"), env={"PATH": "/usr/bin:/bin"})
create(plan)
command = Command(("touch", f"{here}/out/ran"))
try:
    box = launch.start(warden, plan, command, before=before)
except RuntimeError as error:
    print(json.dumps([str(error), ""]))
else:
    result = box.wait()
    print(json.dumps([result.exit_code, result.reason]))
"""


@pytest.mark.parametrize(
    ("what", "told", "ran"),
    [
        ("nothing", [0, "exit"], True),
        ("signal", [128 + 15, "exit"], False),
        ("kill", [125, "launch"], False),
        ("raise", ["not today", ""], False),
    ],
)
def test_what_is_ordered_before_it_runs(
    tmp_path: Path, what: str, told: list[Any], ran: bool
) -> None:
    """A signal waits for the program, an end or an error keeps it from running."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, what],
        cwd=tmp_path, capture_output=True, text=True, timeout=60,
        env={"PYTHONPATH": ROOT, "PATH": "/usr/bin:/bin", "XDG_STATE_HOME": f"{tmp_path}/state"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == told
    assert (tmp_path / "out/ran").exists() is ran
