"""Limits as unit properties, and names that tell whose a unit is."""

from __future__ import annotations

import os
import subprocess
from typing import Any

import pytest

from axonkernel.box import cgroup, owner, scope
from axonkernel.box.model import LimitsPlan
from axonkernel.box.systemd import Manager
from axonkernel.errors import IsolationUnavailable

FULL = LimitsPlan(memory_bytes=1 << 30, cpu_millicores=1500, wall_s=60.0, pids=20)


def test_the_properties_of_a_scope() -> None:
    """Every limit by its name on D-Bus; swap is closed, or memory would never run out."""
    assert scope.properties(FULL) == {
        "Description": "axonkernel box",
        "MemoryMax": 1 << 30,
        "MemorySwapMax": 0,
        "CPUQuotaPerSecUSec": 1_500_000,
        "TasksMax": 20 + cgroup.OWN_TASKS,
        "RuntimeMaxUSec": 65_000_000,
        "CPUAccounting": True,
        "MemoryAccounting": True,
        "TasksAccounting": True,
        "TimeoutStopUSec": 2_000_000,
        "KillMode": "control-group",
        "OOMPolicy": "kill",
        "CollectMode": "inactive-or-failed",
    }


def test_what_is_not_limited_is_not_set() -> None:
    """No limit, no property: the scope only holds the box together."""
    assert set(scope.properties(LimitsPlan(), keep_result=True)) == {
        "Description",
        "CPUAccounting",
        "MemoryAccounting",
        "TasksAccounting",
        "TimeoutStopUSec",
        "KillMode",
        "OOMPolicy",
    }


def test_systemds_clock_leaves_time_for_people() -> None:
    """It runs on while a human is asked, so the plan's slack is added to the wall limit."""
    patient = scope.properties(FULL._replace(slack_s=3000.0))
    assert patient["RuntimeMaxUSec"] == 3_060_000_000


def test_boxes_of_one_kernel_share_the_caps_of_its_slice() -> None:
    """The slice carries the caps, without a clock; the scope names it."""
    shared = scope.slice_properties(FULL, boxes=4)
    assert shared["MemoryMax"] == 1 << 30
    assert shared["TasksMax"] == 20 + 4 * cgroup.OWN_TASKS
    assert "RuntimeMaxUSec" not in shared
    name = scope.slice_name()
    assert "-" not in name, "a dash would make a parent slice"
    assert scope.properties(FULL, slice=name)["Slice"] == name


def test_a_process_that_does_not_move_is_unavailable() -> None:
    """The launch never goes on with a box outside its scope."""
    with pytest.raises(IsolationUnavailable, match="membership"):
        scope.wait_in_cgroup(os.getpid(), "axonkernel-nowhere.scope", timeout_s=0.05)


@pytest.mark.parametrize(
    ("unified", "missing", "fix"),
    [
        (False, ("memory", "cpu"), "boot with cgroup v2"),
        (True, ("cpu",), "Delegate=cpu memory pids"),
        (False, ("swap",), "swapoff -a"),
    ],
)
def test_a_limit_that_is_not_held_is_named_with_its_cure(
    unified: bool, missing: tuple[str, ...], fix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By what this machine lacks: the hierarchy, the delegation, or closed swap."""
    monkeypatch.setattr(scope, "_UNIFIED", "/proc/self/stat" if unified else "/nonexistent")
    error = scope.unheld("axonkernel-x.scope", missing)
    assert error.missing == f"a control group for {', '.join(missing)}"
    assert fix in error.fix and "axonkernel-x.scope" in error.fix


# -- whose it is ------------------------------------------------------------------------


def name_of_a_dead_process() -> str:
    own = scope.scope_name()
    with subprocess.Popen(["true"]) as process:
        process.wait()
        return own.replace(f"-{os.getpid()}s", f"-{process.pid}s")


def test_names_are_orphans_when_their_process_is_gone() -> None:
    """A killed supervisor's name is told from a live one's, also when its pid came again."""
    own = scope.scope_name()
    assert not owner.is_orphan(own) and not owner.is_orphan(scope.slice_name())
    assert own != scope.scope_name()
    assert owner.is_orphan(name_of_a_dead_process())
    started = own.partition("s")[2].partition("n")[0]
    assert owner.is_orphan(own.replace(f"s{started}n", "s1n"))


def test_names_of_others_are_nobodys_orphans() -> None:
    """Another pid namespace's pids mean nothing here; other programs' names neither."""
    dead = name_of_a_dead_process()
    namespace = dead.partition("n")[2].rpartition("n")[2].partition("x")[0]
    assert not owner.is_orphan(dead.replace(f"n{namespace}x", "n1x"))
    for name in ("axonkernel.slice", "axonkernel-x.scope", "user-1000.slice", "init.scope"):
        assert not owner.is_orphan(name)


class Units:
    """A manager that has units and does what it is told; see ``axonkernel.box.bus.Bus``."""

    def __init__(self, *names: str) -> None:
        self.names = list(names)

    def call(self, path: str, interface: str, method: str, signature: str, *values: Any) -> Any:
        if method == "ListUnitsByPatterns":
            kind = values[1][0].rpartition(".")[2]
            return [(name, "", "loaded") for name in self.names if name.endswith(kind)]
        if method == "StopUnit":
            self.names.remove(values[0])
        return "not-found" if method == "Get" else None


def test_only_orphans_are_swept() -> None:
    """Two kernels at once: what the other runs stays, what a killed one left goes."""
    dead, other = name_of_a_dead_process(), "axonkernel-other.scope"
    dead_slice = dead.replace("axonkernel-", "axonkernel_").replace(".scope", ".slice")
    ours, slice = scope.scope_name(), scope.slice_name()
    units = Units(dead, ours, other, slice, dead_slice)
    scope.sweep(Manager(over=units))
    assert units.names == [ours, other, slice]
