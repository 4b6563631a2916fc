"""LimitsPlan -> a systemd scope around the processes of a box.

``properties`` is pure. ``start`` puts processes that run already (the box, still blocked) into
a new scope, which costs a third of ``systemd-run``. The system manager serves root
and the user manager everybody else. Standard library only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence

from axonkernel.box import cgroup
from axonkernel.box.model import LimitsPlan
from axonkernel.box.systemd import PATIENCE_S, Value, start_transient, systemctl, unavailable

__all__ = [
    "WALL_SLACK_S",
    "forget",
    "properties",
    "result",
    "slice_name",
    "slice_properties",
    "start",
    "stop",
    "sweep_slices",
    "wait_in_cgroup",
]

#: systemd ends the box so long after its wall limit. The supervisor's own clock comes first;
#: this one is for a supervisor that is stopped.
WALL_SLACK_S = 5.0

_KILL_AFTER_S = 2

# -- values -----------------------------------------------------------------------------


def properties(
    limits: LimitsPlan, *, slice: str = "", wall_slack_s: float = WALL_SLACK_S
) -> dict[str, Value]:
    """The properties of a scope that holds ``limits``, by their names on D-Bus.

    Arguments:
        slice: the slice it lies in; "" for the manager's default.
        wall_slack_s: added to the wall limit; must cover the waits for a human.
    """
    held: dict[str, Value] = {"Description": "axonkernel box", **_caps(limits, boxes=1)}
    # On v1 a controller that is not asked for is not there, and counts for others as well.
    held |= {"CPUAccounting": True, "MemoryAccounting": True, "TasksAccounting": True}
    if limits.wall_s:
        held["RuntimeMaxUSec"] = int((limits.wall_s + wall_slack_s) * 1_000_000)
    # The parked process ignores SIGTERM; it must not hold the scope for a minute and a half.
    held["TimeoutStopUSec"] = _KILL_AFTER_S * 1_000_000
    held["KillMode"] = "control-group"
    held["OOMPolicy"] = "kill"
    if slice:
        held["Slice"] = slice
    return held


def slice_properties(limits: LimitsPlan, *, boxes: int = 64) -> dict[str, Value]:
    """The properties of the slice all boxes of one kernel share, so that they share its caps.

    ``boxes`` at once can run without their own processes eating into ``pids``.
    """
    return {"Description": "axonkernel boxes", **_caps(limits, boxes=boxes)}


def sweep_slices() -> None:
    """Stop the slices of kernels that were killed before they could."""
    shown = systemctl(_user(None), "list-units", "--plain", "--no-legend", "axonkernel_*.slice")
    for line in shown.splitlines():
        name = line.split()[0]
        pid = name.removeprefix("axonkernel_").partition("x")[0]
        if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            stop(name)


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


def slice_name(kernel: str) -> str:
    """The slice of one kernel; ``kernel`` is letters and digits.

    No dash: it would make a parent slice, which nobody stops.
    """
    return f"axonkernel_{kernel}.slice"


# -- while it runs ----------------------------------------------------------------------


def start(
    unit: str,
    properties: Mapping[str, Value],
    pids: Sequence[int],
    *,
    user: bool | None = None,
    keep_result: bool = False,
) -> None:
    """Make a scope with ``pids`` in it (or a slice, without). Returns before they are moved.

    Arguments:
        user: which manager; None for the system's when this is root.
        keep_result: a failed unit stays, for :func:`result`, until :func:`forget`. One whose
            processes died before they were moved is a failed unit too.

    Raises IsolationUnavailable, in less than 5 s, when systemd is not there or refuses.
    """
    collected: dict[str, Value] = {} if keep_result else {"CollectMode": "inactive-or-failed"}
    start_transient(unit, {**properties, **collected}, pids, user=_user(user))


def _user(user: bool | None) -> bool:
    return os.geteuid() != 0 if user is None else user


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
            reason = f"{unit} does not hold {', '.join(missing)}"
            raise unavailable(reason, user=_user(None))
        time.sleep(0.0005)


def _is_in(pid: int, unit: str) -> bool:
    try:
        with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="replace") as file:
            return any(line.rstrip("\n").endswith(f"/{unit}") for line in file)
    except FileNotFoundError:
        return False


# -- the end ----------------------------------------------------------------------------


def result(unit: str, *, user: bool | None = None) -> str:
    """How a unit ended: ``success``, ``timeout``, ``oom-kill``, ...; "" when it is gone.

    A scope that ended well is gone at once, as is a failed one unless it was started to be
    kept; that one stays until :func:`forget`.
    """
    shown = dict(
        line.split("=", 1)
        for line in systemctl(_user(user), "show", "-p", "LoadState,Result", unit).splitlines()
        if "=" in line
    )
    return "" if shown.get("LoadState") != "loaded" else shown.get("Result", "")


def stop(unit: str, *, user: bool | None = None) -> None:
    """End a unit with every process in it, and forget it. Does nothing when it is gone."""
    systemctl(_user(user), "stop", unit)
    forget(unit, user=user)


def forget(unit: str, *, user: bool | None = None) -> None:
    """Let systemd drop a failed unit."""
    systemctl(_user(user), "reset-failed", unit)
