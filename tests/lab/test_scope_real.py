"""Scopes in the lab's systemd: every limit bites, over both transports and both managers."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from axonkernel.box.model import LimitsPlan
from lab.systemd import SystemdLab

pytestmark = [pytest.mark.requires("lab", "scope"), pytest.mark.usefixtures("lab_leftovers")]

HERE = Path(__file__).parent
HOG = "x = b'x' * 200_000_000; print('survived')"
FORKS = """
import os, time
made = 0
try:
    while made < 30:
        if os.fork() == 0: time.sleep(0.5); os._exit(0)
        made += 1
except BlockingIOError: pass
print(made)
"""
BUSY = """
import time
end = time.monotonic() + 1.5
while time.monotonic() < end: pass
print(time.process_time())
"""


def run(
    lab: SystemdLab,
    program: str,
    limits: LimitsPlan,
    *,
    transport: str = "pydbus",
    user: int | None = None,
    slice: bool = False,
) -> dict[str, Any]:
    order = {"program": program, "limits": limits, "transport": transport, "slice": slice}
    done = lab.run(
        [sys.executable, HERE / "scope_child.py"],
        env={"PYTHONPATH": str(HERE.parents[1])},
        input=json.dumps(order),
        user=user,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


TRANSPORTS = pytest.mark.parametrize("transport", ["pydbus", "busctl"])


@TRANSPORTS
def test_memory_is_held(lab: SystemdLab, transport: str) -> None:
    """200 MB under 60 MB is killed and counted as such; under 600 MB it is not."""
    killed = run(lab, HOG, LimitsPlan(memory_bytes=60_000_000), transport=transport)
    assert (killed["code"], killed["said"]) == (-9, "")
    assert killed["counters"]["oom_kills"] == 1
    assert 40_000_000 < killed["counters"]["peak_memory_bytes"] <= 60_000_000
    lives = run(lab, HOG, LimitsPlan(memory_bytes=600_000_000), transport=transport)
    assert (lives["code"], lives["said"]) == (0, "survived\n")
    assert lives["counters"]["oom_kills"] == 0
    assert lives["counters"]["peak_memory_bytes"] > 200_000_000


@TRANSPORTS
def test_processes_are_held(lab: SystemdLab, transport: str) -> None:
    """``pids`` counts the agent's processes; our own are allowed for."""
    few = run(lab, FORKS, LimitsPlan(pids=6), transport=transport)
    # In a box bwrap's two processes take two of the tasks that are free here.
    assert int(few["said"]) == 6 + 1
    many = run(lab, FORKS, LimitsPlan(pids=100), transport=transport)
    assert int(many["said"]) == 30


@TRANSPORTS
def test_processor_time_is_held(lab: SystemdLab, transport: str) -> None:
    """A fifth of a core is a fifth of a core, and it is counted."""
    slow = run(lab, BUSY, LimitsPlan(cpu_millicores=200), transport=transport)
    assert float(slow["said"]) < 0.6
    assert slow["counters"]["cpu_s"] == pytest.approx(float(slow["said"]), abs=0.2)
    fast = run(lab, BUSY, LimitsPlan(cpu_millicores=4000), transport=transport)
    # A busy machine gives less than a whole core, but more than a fifth.
    assert float(fast["said"]) > 1.3 * float(slow["said"])


@TRANSPORTS
def test_systemd_keeps_the_wall_clock_too(lab: SystemdLab, transport: str) -> None:
    """A supervisor that hangs does not lift the limit; the unit says timeout until forgotten."""
    limits = LimitsPlan(wall_s=1.0, slack_s=0.0)
    sleep = "import time; time.sleep(20); print('woke')"
    ended = run(lab, sleep, limits, transport=transport)
    assert (ended["code"], ended["said"], ended["result"]) == (-15, "", "timeout")
    assert ended["took_s"] < 10
    assert ended["afterwards"] == [""]
    in_time = run(lab, "print('woke')", limits, transport=transport)
    assert (in_time["code"], in_time["said"]) == (0, "woke\n")


@TRANSPORTS
def test_units_are_started_watched_and_stopped(lab: SystemdLab, transport: str) -> None:
    """The scope lies in the kernel's slice, is seen while it runs, and stopping it ends what
    is left in it; then both are gone."""
    limits = LimitsPlan(memory_bytes=600_000_000)
    answer = run(lab, "print('ran')", limits, slice=True, transport=transport)
    assert "/SLICE/axonkernel-" in answer["placed"]
    assert (answer["said"], answer["during"], answer["listed"]) == ("ran\n", "active", True)
    assert answer["parked_died"]
    assert all(state in ("", "inactive") for state in answer["afterwards"])


@pytest.mark.requires("user")
@TRANSPORTS
def test_an_ordinary_user_has_limits_or_is_told(lab: SystemdLab, transport: str) -> None:
    """The user manager holds the cap, or its group's files give it away: never a silent gap."""
    answer = run(lab, HOG, LimitsPlan(memory_bytes=60_000_000), transport=transport, user=lab.uid)
    if "unavailable" in answer:
        missing, fix = answer["unavailable"]
        # On cgroup v1 the user manager takes the property and has no controller.
        assert "memory" in missing and "cgroup v2" in fix
    else:
        assert (answer["code"], answer["counters"]["oom_kills"]) == (-9, 1)
