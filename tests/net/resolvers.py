"""Find the resolver of a box from outside."""

from __future__ import annotations

import os

from lab import processes

__all__ = ["resolver_of"]


def resolver_of(supervisor: int) -> int:
    """The process beside the warden that has entered the box's network and not its files."""
    outside = network(supervisor)
    parents = processes.parents()
    found = []
    for pid in processes.descendants(supervisor):
        warden = parents.get(pid, 0)
        same = all(namespace(pid, kind) == namespace(warden, kind) for kind in ("net", "mnt"))
        here = namespace(pid, "pid") == os.readlink("/proc/self/ns/pid")
        if same and here and network(pid) not in ("", outside):
            found.append(pid)
    assert len(found) == 1, found
    return found[0]


def network(pid: int) -> str:
    """The network namespace of a process; "" when it has ended."""
    return namespace(pid, "net")


def namespace(pid: int, kind: str) -> str:
    """A namespace of a process; "" when it has ended."""
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return ""
