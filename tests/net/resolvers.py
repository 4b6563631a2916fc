"""Find the resolver of a box from outside."""

from __future__ import annotations

import os

from lab import processes

__all__ = ["resolver_of"]


def resolver_of(supervisor: int) -> int:
    """The process beside the warden that has entered the box's network and not its files."""
    outside = {network(supervisor), os.readlink("/proc/self/ns/net")}
    here = os.readlink("/proc/self/ns/pid")
    parents = processes.parents()
    networks = {pid: network(pid) for pid in processes.descendants(supervisor)}
    found = [
        pid for pid, own in networks.items()
        if own and own not in outside and own == networks.get(parents.get(pid, 0))
        and os.readlink(f"/proc/{pid}/ns/pid") == here
    ]  # fmt: skip
    assert len(found) == 1, found
    return found[0]


def network(pid: int) -> str:
    """The network namespace of a process; "" when it has ended."""
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""
