"""The exec gate: what it sees of a stopped program, and that nothing runs before."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from axonkernel.box import gate

ROOT = str(Path(__file__).parents[3])


def test_a_program_without_walls_is_told_so() -> None:
    """This very process: every namespace shared, privileges open, no filter."""
    found = gate.faults(os.getpid(), gate.namespaces(), own_net=True, filtered=True)
    names = ("user", "mnt", "pid", "net")
    shared = {f"shares the {name} namespace with the host" for name in names}
    assert shared <= set(found)
    assert "no_new_privs is off" in found and "no seccomp filter" in found


def test_what_was_not_planned_is_not_missed() -> None:
    """A box with the host's network, or without a filter, is not faulted for that."""
    found = gate.faults(os.getpid(), gate.namespaces(), own_net=False, filtered=False)
    assert not [fault for fault in found if "net" in fault.split() or "filter" in fault]
    assert [fault for fault in found if "mnt" in fault]


def test_other_namespaces_are_no_fault() -> None:
    """Only equality is."""
    outside = dict.fromkeys(gate.namespaces(), "other:[1]")
    found = gate.faults(os.getpid(), outside, own_net=True, filtered=False)
    assert not [fault for fault in found if fault.startswith("shares")]


#: Run apart: waiting for tracees would reap the children of the test run itself.
SCRIPT = """
import json, os, sys
from axonkernel.box import gate
marker, words = sys.argv[1], sys.argv[2:]
ready, go = os.pipe()
pid = os.fork()
if pid == 0:
    os.read(ready, 1)
    if os.fork() == 0:
        if words: os.execv(words[0], words)
        os._exit(7)
    os.wait()
    os._exit(0)
gate.seize(pid)
os.write(go, b"x")
forks, reaped = [], {}
stopped = gate.await_exec(pid, reaped, forks.append)
early = os.path.exists(marker)
comm = None
if stopped is not None:
    comm = open(f"/proc/{stopped}/comm").read().strip()
    if "--kill" in sys.argv: os.kill(stopped, 9)
    else: gate.release(stopped)
    gate.reap_until_gone(os.pidfd_open(pid), reaped)
print(json.dumps([stopped, forks, early, comm, os.path.exists(marker), list(reaped)]))
"""


def traced(marker: Path, *words: str) -> Any:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(marker), *words],
        capture_output=True, text=True, timeout=60, env={"PYTHONPATH": ROOT},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_program_is_held_at_its_first_instruction(tmp_path: Path) -> None:
    """It is loaded, has done nothing yet, and does it once it is let go."""
    marker = tmp_path / "marker"
    stopped, forks, early, comm, late, _ = traced(marker, "/usr/bin/touch", str(marker))
    assert forks == [stopped] and comm == "touch"
    assert (early, late) == (False, True)


def test_a_program_killed_at_the_gate_never_ran(tmp_path: Path) -> None:
    """The side effect: no marker."""
    marker = tmp_path / "marker"
    stopped, _, _, _, late, _ = traced(marker, "/usr/bin/touch", str(marker), "--kill")
    assert stopped and not late


def test_an_end_without_a_program_is_told(tmp_path: Path) -> None:
    """None, and the children that ended are accounted for."""
    stopped, forks, _, _, _, reaped = traced(tmp_path / "marker")
    assert stopped is None and len(forks) == 1 and len(reaped) >= 1


def test_what_cannot_be_traced_is_an_error() -> None:
    """A process that is not there."""
    with pytest.raises(gate.GateError, match="ptrace refused"):
        gate.seize(2**22 + 1)
