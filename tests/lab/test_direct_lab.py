"""Control groups without systemd, in the kernel's own cgroup v2 hierarchy.

Beside controllers on cgroup v1 that hierarchy has none of memory, cpu and pids, so what is seen
here is delegation, membership, counting, killing and removal; the caps themselves are held
against stand-in files in tests/unit/box/test_direct.py.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lab.labbox import READ, LabBox
from lab.processes import PATH, REPOSITORY
from lab.systemd import SystemdLab

pytestmark = [
    pytest.mark.requires("lab", "scope", "box"),
    pytest.mark.usefixtures("lab_leftovers"),
]

TREE = "read go; setsid sh -c 'while :; do sleep 300; done' & while :; do :; done"
#: Makes a group below the nearest that is ours, fills it, and takes it away.
GROUP = f"""
import json, os, signal, subprocess, time
from axonkernel.box import cgroup, direct
from axonkernel.box.model import LimitsPlan
told = {{"needs": direct.parent(direct.controllers(LimitsPlan(memory_bytes=1)))}}
above = told["above"] = direct.parent(frozenset())
if above:
    tree = subprocess.Popen(["sh", "-c", {TREE!r}], start_new_session=True,
                            stdin=subprocess.PIPE, stdout=open(os.devnull, "w"),
                            stderr=subprocess.STDOUT)
    folder = direct.make(above, LimitsPlan(), [tree.pid])
    tree.stdin.write(b"\\n"); tree.stdin.flush()
    time.sleep(0.5)
    told["found"] = cgroup.unified(tree.pid) == folder
    told["cpu_s"] = cgroup.of(folder).counters().cpu_s
    direct.remove(folder)
    told["code"], told["there"] = tree.wait(10), os.path.exists(folder)
print(json.dumps(told))
"""
#: A kernel whose limits need no controller: everything of the road but the caps.
KERNEL = """
import sys
from axonkernel import Kernel, LimitExceeded
from axonkernel.box import bus, cgroup, direct, prepare, probe
bus.BOOTED = "/nonexistent"
direct.controllers = lambda limits: frozenset()
direct.settings = lambda limits, boxes=1: ()
cgroup.Group.unheld = lambda self, limits: ()
probe.require = lambda fields, found: None
policy = {"limits": {"memory": "300M", "wall": "5s"}, "fs": {"read": ["."]}}
with Kernel(policy, cwd=".", audit="log") as kernel:
    run = kernel.process.run_sync
    print(run(["/bin/sh", "-c", "cat /proc/self/cgroup; sleep 0.3 & setsid sleep 300 &"]).text)
    print(run(["/bin/true"]).used)
"""


@pytest.fixture
def unified(lab: SystemdLab) -> str:
    """Where the lab has cgroup v2."""
    shown = lab.run(["findmnt", "-n", "-o", "TARGET", "-t", "cgroup2"]).stdout.split()
    assert shown, "this kernel has no cgroup v2 at all"
    return shown[0]


@pytest.fixture
def delegated(lab: SystemdLab, unified: str) -> Iterator[str]:
    """A group of the ordinary user's, with a leaf for its own processes."""
    folder = f"{unified}/axonlab.run/delegated"
    owned = f"{folder} {folder}/leaf"
    files = " ".join(f"{f}/cgroup.{n}" for f in owned.split() for n in ("procs", "subtree_control"))
    lab.run(["sh", "-c", f"mkdir {owned} && chown {lab.uid} {owned} {files}"])
    yield folder
    lab.run(["rmdir", f"{folder}/leaf", folder])


def python(lab: SystemdLab, code: str, group: str = "", user: int | None = None) -> dict[str, Any]:
    """What a program in the lab told, which was put into ``group`` first."""
    words: list[str] = [sys.executable, "-c", code]
    if group:
        # Entered by root, as whoever delegates a group does, then given up.
        drop = [] if user is None else ["setpriv", f"--reuid={user}", "--clear-groups"]
        script = f'echo $$ > {group}/cgroup.procs && exec "$@"'
        words = ["sh", "-c", script, "sh", *drop, *words]
    done = lab.run(words, user=None if group else user, env={"PYTHONPATH": str(REPOSITORY)})
    assert done.returncode == 0, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)
    return told


def test_root_makes_fills_and_removes_a_group(lab: SystemdLab, unified: str) -> None:
    """A busy shell and a child in a session of its own: counted, killed, the folder gone."""
    told = python(lab, GROUP)
    assert told["above"].startswith(unified)
    assert told["found"] and 0 < told["cpu_s"] < 5
    assert (told["code"], told["there"]) == (-9, False)


def test_a_user_has_the_group_that_was_delegated(lab: SystemdLab, delegated: str) -> None:
    """The parent of the leaf it is in; without delegation there is none, and nothing is made."""
    told = python(lab, GROUP, f"{delegated}/leaf", lab.uid)
    assert told["above"] in (delegated, f"{delegated}/leaf")
    assert told["found"] and (told["code"], told["there"]) == (-9, False)
    assert python(lab, GROUP, user=lab.uid) == {"needs": "", "above": ""}


def test_a_missing_controller_is_no_delegation(lab: SystemdLab, delegated: str) -> None:
    """Where memory is not handed on, memory is not held: the group is not taken."""
    controllers = lab.get(f"{delegated}/cgroup.controllers").split()
    told = python(lab, GROUP, f"{delegated}/leaf", lab.uid)
    assert bool(told["needs"]) == ("memory" in controllers)


def test_boxes_live_and_end_in_groups_of_their_own(lab: SystemdLab, unified: str) -> None:
    """From the launch to the end of a kernel: each box in its own group below the kernel's,
    all of it gone afterwards (the fixture looks, too)."""
    box = LabBox(lab, None, None)
    try:
        done = lab.run([sys.executable, "-c", KERNEL], cwd=box.project, env=box.env)
        assert done.returncode == 0, done.stderr
        (line,) = [line for line in done.stdout.splitlines() if line.startswith("0::")]
        assert line.count("/axonkernel-") == 2, done.stdout
        assert "cpu_s=0.0" in done.stdout and "cpu_s=None" not in done.stdout
        left = lab.run(["find", unified, "-name", "axonkernel-*"]).stdout
        assert left == ""
    finally:
        box.close()


def test_with_neither_systemd_nor_delegation_limits_are_refused(tmp_path: Path) -> None:
    """Both pieces are named in the fix, nothing ran; without limits it does."""
    env = {"PATH": PATH, "PYTHONPATH": str(REPOSITORY)}
    env |= {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CACHE", "STATE", "CONFIG")}

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        hidden = 'mount -t tmpfs none /run && mount -t tmpfs none /sys/fs/cgroup && exec "$@"'
        words = [sys.executable, "-m", "axonkernel", "exec", *READ, *options, "--", "echo", "ran"]
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", hidden, "sh", *words],
            cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    refused = run("--limit", "memory=1G")
    assert (refused.returncode, refused.stdout) == (125, "")
    assert "systemd" in refused.stderr and "cgroup v2 delegated" in refused.stderr
    assert run().stdout == "ran\n"
