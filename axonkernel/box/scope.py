"""LimitsPlan -> a systemd scope around the processes of a box.

``properties`` is pure. Processes that run already (the box, still blocked) are put into
a new scope, which costs a third of ``systemd-run``. The system manager serves root
and the user manager everybody else. Standard library only.
"""

from __future__ import annotations

import os
import time

from axonkernel.box import cgroup
from axonkernel.box.bus import PATIENCE_S
from axonkernel.box.model import LimitsPlan
from axonkernel.box.owner import is_orphan, unique_name
from axonkernel.box.systemd import Manager, Value
from axonkernel.errors import IsolationUnavailable

__all__ = [
    "properties",
    "scope_name",
    "slice_name",
    "slice_properties",
    "sweep",
    "unheld",
    "wait_in_cgroup",
]

_KILL_AFTER_S = 2
#: There where the whole machine has cgroup v2.
_UNIFIED = "/sys/fs/cgroup/cgroup.controllers"


def properties(
    limits: LimitsPlan, *, slice: str = "", keep_result: bool = False
) -> dict[str, Value]:
    """The properties of a scope that holds ``limits``, by their names on D-Bus.

    Arguments:
        slice: the slice it lies in; "" for the manager's default.
        keep_result: a failed unit stays, for ``Manager.state``, until ``Manager.forget``. One
            whose processes died before they were moved is a failed unit too.
    """
    held: dict[str, Value] = {"Description": "axonkernel box", **_caps(limits, boxes=1)}
    # On v1 a controller that is not asked for is not there, and counts for others as well.
    held |= {"CPUAccounting": True, "MemoryAccounting": True, "TasksAccounting": True}
    if limits.wall_s:
        held["RuntimeMaxUSec"] = int((limits.wall_s + limits.slack_s) * 1_000_000)
    # The parked process ignores SIGTERM; it must not hold the scope for a minute and a half.
    held["TimeoutStopUSec"] = _KILL_AFTER_S * 1_000_000
    held["KillMode"] = "control-group"
    held["OOMPolicy"] = "kill"
    if slice:
        held["Slice"] = slice
    if not keep_result:
        held["CollectMode"] = "inactive-or-failed"
    return held


def slice_properties(limits: LimitsPlan, *, boxes: int = 64) -> dict[str, Value]:
    """The properties of the slice all boxes of one kernel share, so that they share its caps.

    ``boxes`` at once can run without their own processes eating into ``pids``.
    """
    return {"Description": "axonkernel boxes", **_caps(limits, boxes=boxes)}


def _caps(limits: LimitsPlan, boxes: int) -> dict[str, Value]:
    caps: dict[str, Value] = {}
    if limits.memory_bytes:
        # Without the second a box over its memory is swapped out instead of killed.
        caps |= {"MemoryMax": limits.memory_bytes, "MemorySwapMax": 0}
    if limits.cpu_millicores:
        caps["CPUQuotaPerSecUSec"] = limits.cpu_millicores * 1000
    if limits.pids:
        caps["TasksMax"] = limits.pids + boxes * cgroup.OWN_TASKS
    return caps


def scope_name() -> str:
    """A new name for the scope of one box of this process."""
    return f"{unique_name()}.scope"


def slice_name() -> str:
    """A new name for the slice of one kernel in this process.

    No dash: it would make a parent slice, which nobody stops.
    """
    return f"{unique_name('axonkernel_')}.slice"


def sweep(manager: Manager) -> None:
    """Stop what supervisors left that were killed before they could: slices, and scopes whose
    processes died while they were being moved, which on cgroup v1 systemd does not notice."""
    for pattern in ("axonkernel_*.slice", "axonkernel-*.scope"):
        for name in filter(is_orphan, manager.named(pattern)):
            manager.stop(name)


def wait_in_cgroup(
    pid: int, unit: str, limits: LimitsPlan | None = None, *, timeout_s: float = PATIENCE_S
) -> None:
    """Wait until ``pid`` is in the unit's control group and the group holds ``limits``.

    Raises IsolationUnavailable when that does not come true, naming the limits not held: a
    manager without a controller accepts a limit and ignores it.
    """
    deadline_s = time.monotonic() + timeout_s
    missing: tuple[str, ...] = ("membership",)
    while True:
        if _is_in(pid, unit):
            missing = cgroup.find(pid).unheld(limits) if limits is not None else ()
        if not missing:
            return
        if time.monotonic() > deadline_s:
            raise unheld(unit, missing)
        time.sleep(0.0005)


def unheld(group: str, missing: tuple[str, ...]) -> IsolationUnavailable:
    """The error for a group that was made and does not hold what it was asked to."""
    fix = "boot with cgroup v2 (kernel option systemd.unified_cgroup_hierarchy=1)"
    if os.path.exists(_UNIFIED):
        drop_in = "[Service] Delegate=cpu memory pids"
        fix = f"sudo systemctl edit user@.service: {drop_in}; then log in again"
    if missing == ("swap",):
        fix = "sudo swapoff -a, or boot with cgroup v2 and swapaccount=1"
    names = ", ".join(missing)
    return IsolationUnavailable("limits", f"a control group for {names}", f"{fix} ({group})")


def _is_in(pid: int, unit: str) -> bool:
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            return any(line.rstrip("\n").endswith(f"/{unit}") for line in file)
    except FileNotFoundError:
        return False
