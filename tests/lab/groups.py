"""Control groups of the lab: one new group in each hierarchy, seen inside as ``/``."""

from __future__ import annotations

import contextlib
import os
import time

from lab.syscalls import MS_NODEV, MS_NOSUID, Mounted, mount, mounts

PREFIX = "axonlab-"
CGROUP_ROOT = "/sys/fs/cgroup"


def hierarchies() -> list[tuple[Mounted, str]]:
    """Each mounted hierarchy of control groups and the caller's own folder in it."""
    own = {}
    with open("/proc/self/cgroup") as lines:
        for line in lines:
            _, controllers, path = line.rstrip("\n").split(":", 2)
            own[controllers] = path
    found = {}
    for each in mounts():
        if each.kind == "cgroup2":
            # Beside the caller: a v2 group with processes cannot have children with limits.
            found[each.point] = (each, each.point)
        elif each.kind == "cgroup" and "cpuset" not in each.options.split(","):
            names = v1_names(each)
            path = own.get(",".join(names), "/")
            found[each.point] = (each, os.path.join(each.point, path.strip("/")))
    return [pair for pair in found.values() if os.path.isdir(pair[1])]


def v1_names(each: Mounted) -> list[str]:
    known = "rw ro xattr clone_children noprefix cpuset_v2_mode favordynmods".split()
    options = each.options.split(",")
    return [name for name in options if name not in known and not name.startswith("release")]


def make_groups() -> list[tuple[Mounted, str]]:
    """One new group for the lab in each hierarchy that allows it."""
    made = []
    for each, parent in hierarchies():
        sweep(parent)
        path = os.path.join(parent, f"{PREFIX}{os.getpid()}")
        with contextlib.suppress(OSError):
            os.mkdir(path)
            made.append((each, path))
    return made


def sweep(parent: str) -> None:
    """Remove the groups of labs whose holder was killed too hard to do it."""
    for name in os.listdir(parent):
        pid = name.removeprefix(PREFIX)
        if name != pid and pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            remove_group(os.path.join(parent, name))


def remove_group(path: str, deadline: float = 0.0) -> None:
    """Remove a group and all below it, waiting until ``deadline`` for its last process."""
    for folder, _, _ in os.walk(path, topdown=False):
        while True:
            try:
                os.rmdir(folder)
                break
            except OSError:
                if time.monotonic() > deadline:
                    break
                time.sleep(0.02)


def mount_groups(groups: list[tuple[Mounted, str]]) -> None:
    """Mount the hierarchies again: seen from the new namespace, the lab's group is ``/``."""
    if [each.point for each, _ in groups] == [CGROUP_ROOT]:
        mount("cgroup2", "." + CGROUP_ROOT, "cgroup2")
        return
    mount("tmpfs", "." + CGROUP_ROOT, "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    for each, _ in groups:
        point = "." + os.path.join(CGROUP_ROOT, os.path.basename(each.point))
        os.makedirs(point, exist_ok=True)
        names = v1_names(each)
        named = len(names) == 1 and names[0].startswith("name=")
        data = ",".join(["none", *names] if named else names)
        mount("cgroup", point, each.kind, 0, "" if each.kind == "cgroup2" else data)
