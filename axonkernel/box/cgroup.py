"""A process's control group: what it used, and whether its limits are really set.

Works on cgroup v1, v2 and mixtures, by the files alone. Standard library only.
"""

from __future__ import annotations

import os

from axonkernel.box.model import LimitsPlan
from axonkernel.typed import NamedTuple

__all__ = ["OWN_TASKS", "Counters", "Group", "find", "of", "placed", "unified"]

#: bwrap's two processes and the parked one that keeps the scope: a cap on tasks counts them.
OWN_TASKS = 3
_SWAPS = "/proc/swaps"


class Counters(NamedTuple):
    """What a control group used so far; None where the kernel does not count it.

    Arguments:
        peak_memory_bytes: the most memory the group held at once.
        cpu_s: seconds of processor time.
        peak_pids: the most processes and threads at once, our own included.
        oom_kills: processes the kernel killed for memory.
        refused_pids: how often a process or thread was not made for the cap on them.
    """

    peak_memory_bytes: int | None = None
    cpu_s: float | None = None
    peak_pids: int | None = None
    oom_kills: int = 0
    refused_pids: int = 0


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
        refused = _table(f"{self.pids}/pids.events").get("max", 0)
        pids = _number(f"{self.pids}/pids.peak")
        return Counters(peak, self._cpu_s(), pids, self._oom_kills(), refused)

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
        the group's own files are believed. ``swap`` is named where memory over the cap would
        go there instead: a limit that only slows the box down.
        """
        pids = limits.pids and limits.pids + OWN_TASKS
        swap = limits.memory_bytes and self._swap_bytes(limits.memory_bytes)
        caps = (
            ("memory", limits.memory_bytes, self._memory_bytes()),
            ("cpu", limits.cpu_millicores, self._cpu_millicores()),
            ("pids", pids, _number(f"{self.pids}/pids.max")),
        )
        missing = [name for name, cap, found in caps if cap and (found is None or found > cap)]
        return (*missing, "swap") if swap and "memory" not in missing else tuple(missing)

    def _memory_bytes(self) -> int | None:
        found = _number(f"{self.memory}/memory.max")
        return _number(f"{self.memory}/memory.limit_in_bytes") if found is None else found

    def _swap_bytes(self, cap_bytes: int) -> int:
        """How much swap the group may fill beside ``cap_bytes`` of memory."""
        swap = _number(f"{self.memory}/memory.swap.max")
        both = _number(f"{self.memory}/memory.memsw.limit_in_bytes")
        if swap is None and both is not None:
            swap = max(0, both - cap_bytes)
        if swap == 0 or len((_text(_SWAPS) or "").splitlines()) < 2:
            return 0
        return -1 if swap is None else swap

    def _cpu_millicores(self) -> int | None:
        words = (_text(f"{self.cpu}/cpu.max") or "").split()
        if len(words) == 2 and words[0] != "max":
            return int(words[0]) * 1000 // int(words[1])
        quota = _number(f"{self.cpu}/cpu.cfs_quota_us")
        period = _number(f"{self.cpu}/cpu.cfs_period_us")
        return quota * 1000 // period if quota and quota > 0 and period else None


def of(folder: str) -> Group:
    """The group of cgroup v2 in a folder."""
    return Group(folder, folder, folder, folder)


def find(pid: int) -> Group:
    """The control group of a process, as it is now. Raises OSError when the process is gone."""
    return placed(_proc(f"{pid}/cgroup"), _proc("self/mountinfo"))


def placed(membership: str, mountinfo: str) -> Group:
    """The group that ``/proc/PID/cgroup`` names, in the folders ``mountinfo`` shows it in."""
    lines = [line.split(":", 2) for line in membership.splitlines()]
    paths = {name: path for _, names, path in lines for name in names.split(",")}
    mounts = _mounts(mountinfo)
    # Where systemd put it; on v1 a controller nobody asked for stays with an ancestor.
    unit = os.path.basename(paths.get("name=systemd") or paths.get("", "/"))

    def folder(controller: str) -> str:
        # cgroup v2 is the one without a name; it counts processor time even beside v1.
        for name in (controller, ""):
            path = paths.get(name)
            if path is not None and os.path.basename(path) == unit:
                shown = (_beneath(root, path, place) for root, place in mounts.get(name, ()))
                if found := next(filter(None, shown), ""):
                    return found
        return ""

    return Group(*(folder(controller) for controller in Group._fields))


def unified(pid: int) -> str:
    """The folder of a process's group of cgroup v2; "" where there is none to be seen."""
    for line in _proc(f"{pid}/cgroup").splitlines():
        if line.startswith("0::"):
            mounts = _mounts(_proc("self/mountinfo")).get("", ())
            shown = (_beneath(root, line[3:], place) for root, place in mounts)
            return next(filter(None, shown), "")
    return ""


def _beneath(root: str, path: str, place: str) -> str:
    """The folder of the group ``path`` in a mount of the group ``root`` at ``place``.

    Both count from the root of this process's cgroup namespace. A mount that starts above
    that, such as the host's, has ``root`` ``/..``: by which names it leads here cannot be
    known, and its own folder is another group than ours.
    """
    top = root.rstrip("/")
    inside = path.removeprefix(top) if path == top or path.startswith(f"{top}/") else ".."
    return "" if ".." in inside.split("/") else f"{place}{inside}".rstrip("/")


def _mounts(mountinfo: str) -> dict[str, list[tuple[str, str]]]:
    """Controller ("" for cgroup v2) to the group each of its mounts shows, and where."""
    found: dict[str, list[tuple[str, str]]] = {}
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ")[:3]
        root, place = map(_unescaped, before.split(" ")[3:5])
        names = [""] if kind == "cgroup2" else options.split(",") if kind == "cgroup" else []
        for name in names:
            found.setdefault(name, []).append((root, place))
    return found


def _unescaped(word: str) -> str:
    """A path of mountinfo, where blanks and backslashes are octal numbers."""
    first, *rest = word.split("\\")
    return first + "".join(chr(int(part[:3], 8)) + part[3:] for part in rest)


def _proc(name: str) -> str:
    with open(f"/proc/{name}", encoding="utf-8", errors="surrogateescape") as file:
        return file.read()


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
