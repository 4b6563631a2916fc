"""A process's control group: what it used, and whether its limits are really set.

Works on cgroup v1, v2 and mixtures, by the files alone. Standard library only.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from axonkernel.box.model import LimitsPlan

__all__ = ["OWN_TASKS", "Counters", "Group", "find"]

#: bwrap's two processes and the parked one that keeps the scope: a cap on tasks counts them.
OWN_TASKS = 3


class Counters(NamedTuple):
    """What a control group used so far; None where the kernel does not count it.

    Arguments:
        peak_memory_bytes: the most memory the group held at once.
        cpu_s: seconds of processor time.
        peak_pids: the most processes and threads at once, our own included.
        oom_kills: processes the kernel killed for memory.
    """

    peak_memory_bytes: int | None = None
    cpu_s: float | None = None
    peak_pids: int | None = None
    oom_kills: int = 0


class Group(NamedTuple):
    """The folders of one group, by controller; all the same on cgroup v2.

    "" for a controller in which the process shares a group with others: what is counted there
    is not its own.
    """

    memory: str
    cpu: str
    cpuacct: str
    pids: str

    def counters(self) -> Counters:
        """Read the counters. A group that is gone reads as nothing used."""
        peak = _number(f"{self.memory}/memory.peak")
        if peak is None:
            peak = _number(f"{self.memory}/memory.max_usage_in_bytes")
        return Counters(peak, self._cpu_s(), _number(f"{self.pids}/pids.peak"), self._oom_kills())

    def _cpu_s(self) -> float | None:
        microseconds = _table(f"{self.cpuacct}/cpu.stat").get("usage_usec")
        if microseconds is not None:
            return microseconds / 1e6
        nanoseconds = _number(f"{self.cpuacct}/cpuacct.usage")
        return None if nanoseconds is None else nanoseconds / 1e9

    def _oom_kills(self) -> int:
        for name in ("memory.events", "memory.oom_control"):
            kills = _table(f"{self.memory}/{name}").get("oom_kill")
            if kills is not None:
                return kills
        return 0

    def unheld(self, limits: LimitsPlan) -> tuple[str, ...]:
        """The declared limits (``memory``, ``cpu``, ``pids``) this group does not hold.

        A user manager without the controller takes the property and does nothing, so only
        the group's own files are believed.
        """
        pids = limits.pids and limits.pids + OWN_TASKS
        caps = (
            ("memory", limits.memory_bytes, self._memory_bytes()),
            ("cpu", limits.cpu_millicores, self._cpu_millicores()),
            ("pids", pids, _number(f"{self.pids}/pids.max")),
        )
        return tuple(name for name, cap, found in caps if cap and (found is None or found > cap))

    def _memory_bytes(self) -> int | None:
        found = _number(f"{self.memory}/memory.max")
        return _number(f"{self.memory}/memory.limit_in_bytes") if found is None else found

    def _cpu_millicores(self) -> int | None:
        words = (_text(f"{self.cpu}/cpu.max") or "").split()
        if len(words) == 2 and words[0] != "max":
            return int(words[0]) * 1000 // int(words[1])
        quota = _number(f"{self.cpu}/cpu.cfs_quota_us")
        period = _number(f"{self.cpu}/cpu.cfs_period_us")
        return quota * 1000 // period if quota and quota > 0 and period else None


def find(pid: int) -> Group:
    """The control group of a process, as it is now. Raises OSError when the process is gone."""
    with open(f"/proc/{pid}/cgroup", encoding="utf-8", errors="surrogateescape") as file:
        lines = [line.rstrip("\n").split(":", 2) for line in file]
    paths = {name: path for _, names, path in lines for name in names.split(",")}
    mounts = _mounts()
    # Where systemd put it; on v1 a controller nobody asked for stays with an ancestor.
    unit = os.path.basename(paths.get("name=systemd") or paths.get("", "/"))

    def folder(controller: str) -> str:
        # cgroup v2 is the one without a name; it counts processor time even beside v1.
        for name in (controller, ""):
            path = paths.get(name, "")
            if name in mounts and os.path.basename(path) == unit:
                root, place = mounts[name]
                inside = path.removeprefix(root) if root != "/" else path
                return os.path.normpath(f"{place}/{inside}")
        return ""

    return Group(*(folder(controller) for controller in Group._fields))


def _mounts() -> dict[str, tuple[str, str]]:
    """Controller ("" for cgroup v2) to the group its mount shows and where that is."""
    found: dict[str, tuple[str, str]] = {}
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            before, _, after = line.partition(" - ")
            kind, _, options = after.split()[:3]
            root, place = before.split()[3:5]
            names = [""] if kind == "cgroup2" else options.split(",") if kind == "cgroup" else []
            for name in names:
                found.setdefault(name, (root, place))
    return found


def _text(path: str) -> str | None:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return None


def _number(path: str) -> int | None:
    text = (_text(path) or "").strip()
    return int(text) if text.lstrip("-").isdigit() else None


def _table(path: str) -> dict[str, int]:
    pairs = (line.split() for line in (_text(path) or "").splitlines())
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}
