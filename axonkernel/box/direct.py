"""Limits without systemd: a control group of our own, in a cgroup v2 that is delegated to us.

``settings`` and ``controllers`` are pure; the rest are thin writes to the files of cgroupfs.
Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator, Sequence

from axonkernel.box import cgroup
from axonkernel.box.model import LimitsPlan
from axonkernel.box.owner import is_orphan, unique_name

__all__ = ["controllers", "make", "parent", "remove", "settings", "sweep"]

#: Where this process goes when the group it is in becomes the parent of others: cgroup v2
#: lets no group have both processes and children with limits.
_OWN_PLACE = "axonkernel-supervisor"
_EMPTY_WITHIN_S = 2.0


def controllers(limits: LimitsPlan) -> frozenset[str]:
    """The controllers that ``limits`` need."""
    caps = {"memory": limits.memory_bytes, "cpu": limits.cpu_millicores, "pids": limits.pids}
    return frozenset(name for name, cap in caps.items() if cap)


def settings(limits: LimitsPlan, *, boxes: int = 1) -> tuple[tuple[str, str], ...]:
    """(file, text) pairs that make a group hold ``limits`` for ``boxes`` boxes at once."""
    wanted: list[tuple[str, str]] = []
    if limits.memory_bytes:
        # One kill for memory ends the whole group; nothing goes to swap instead.
        wanted += [("memory.oom.group", "1"), ("memory.swap.max", "0")]
        wanted += [("memory.max", str(limits.memory_bytes))]
    if limits.pids:
        wanted.append(("pids.max", str(limits.pids + boxes * cgroup.OWN_TASKS)))
    if limits.cpu_millicores:
        # The kernel takes no quota below a millisecond; its longest period is a second.
        period_us = 100_000 if limits.cpu_millicores >= 10 else 1_000_000
        quota_us = limits.cpu_millicores * period_us // 1000
        wanted.append(("cpu.max", f"{quota_us} {period_us}"))
    return tuple(wanted)


def parent(needed: frozenset[str], own: str | None = None) -> str:
    """The group below which a group with ``needed`` controllers can be made; "" for none.

    The nearest one above this process that is ours to write and hands the controllers on.
    The group this process is alone in is made to: it moves below it.

    Arguments:
        own: the folder of this process's group; found when None.
    """
    own = cgroup.unified(os.getpid()) if own is None else own
    for folder in _upwards(own):
        if _is_ours(folder) and needed <= _words(f"{folder}/cgroup.subtree_control"):
            return folder
    if own and _is_ours(own) and needed <= _words(f"{own}/cgroup.controllers"):
        with contextlib.suppress(OSError):  # EBUSY: others are in it
            _hand_on(own, needed)
            return own
    return ""


def _upwards(folder: str) -> Iterator[str]:
    while os.path.exists(f"{folder}/cgroup.procs"):
        yield folder
        folder = os.path.dirname(folder)


def _is_ours(folder: str) -> bool:
    files = (folder, f"{folder}/cgroup.procs", f"{folder}/cgroup.subtree_control")
    return all(os.access(file, os.W_OK, effective_ids=True) for file in files)


def _hand_on(own: str, needed: frozenset[str]) -> None:
    """Let children of our own group have controllers. Raises OSError when others than this
    process and its descendants are in it: they are not ours to move."""
    inside = _words(f"{own}/cgroup.procs")
    if all(map(_descends, inside)):
        place = f"{own}/{_OWN_PLACE}"
        with contextlib.suppress(FileExistsError):
            os.mkdir(place)
        for pid in inside:
            _write(f"{place}/cgroup.procs", pid)
    _write(f"{own}/cgroup.subtree_control", " ".join(f"+{name}" for name in sorted(needed)))


def _descends(pid: str) -> bool:
    """Whether a process is this one or was started by it."""
    try:
        while int(pid) > 1 and int(pid) != os.getpid():
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                pid = file.read().rpartition(") ")[2].split()[1]
    except OSError:
        return True  # it ended meanwhile
    return int(pid) == os.getpid()


def make(
    above: str, limits: LimitsPlan, pids: Sequence[int], *, boxes: int = 1, shared: bool = False
) -> str:
    """A new group below ``above`` that holds ``limits``, with ``pids`` in it; its folder.

    Arguments:
        boxes: how many boxes' own processes ``pids`` of the limits must leave room for.
        shared: other groups will be made below it.

    Raises OSError; nothing is left then.
    """
    folder = f"{above}/{unique_name()}"
    os.mkdir(folder)
    try:
        for file, text in settings(limits, boxes=boxes):
            # Without swap accounting the file is not there: cgroup.unheld judges that.
            with contextlib.suppress(*((FileNotFoundError,) if "swap" in file else ())):
                _write(f"{folder}/{file}", text)
        if shared:
            names = sorted(_words(f"{folder}/cgroup.controllers") & {"cpu", "memory", "pids"})
            _write(f"{folder}/cgroup.subtree_control", " ".join(f"+{name}" for name in names))
        for pid in pids:
            _write(f"{folder}/cgroup.procs", str(pid))
    except OSError:
        remove(folder)
        raise
    return folder


def remove(folder: str) -> None:
    """Kill every process of a group and take the group away. Does nothing when it is gone."""
    deadline_s = time.monotonic() + _EMPTY_WITHIN_S
    while os.path.isdir(folder):
        _kill(folder)
        for child, _, _ in os.walk(folder, topdown=False):
            with contextlib.suppress(OSError):  # EBUSY: it has still somebody in it
                os.rmdir(child)
        if time.monotonic() > deadline_s:
            return
        time.sleep(0.001)


def _kill(folder: str) -> None:
    try:
        _write(f"{folder}/cgroup.kill", "1")
    except OSError:  # before Linux 5.14
        for pid in _words(f"{folder}/cgroup.procs"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


def sweep(above: str) -> None:
    """Take away the groups of supervisors that were killed before they could."""
    with contextlib.suppress(OSError):
        for name in filter(is_orphan, os.listdir(above)):
            remove(f"{above}/{name}")


def _words(path: str) -> frozenset[str]:
    try:
        with open(path, encoding="ascii") as file:
            return frozenset(file.read().split())
    except OSError:
        return frozenset()


def _write(path: str, text: str) -> None:
    # Never made when it is missing: what is written must be the kernel's own file.
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, text.encode())
    finally:
        os.close(fd)
