"""Where a process's control group is, what it counts, and whether it holds what it should."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from axonkernel.box import cgroup
from axonkernel.box.cgroup import Group
from axonkernel.box.model import LimitsPlan

FULL = LimitsPlan(memory_bytes=1 << 30, cpu_millicores=1500, wall_s=60.0, pids=20)


def group(folder: Path, **files: str) -> Group:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return cgroup.of(str(folder))


# -- what it counts ---------------------------------------------------------------------


def test_counters_of_cgroup_v2(tmp_path: Path) -> None:
    """memory.peak, cpu.stat, pids.peak, memory.events and pids.events."""
    found = group(
        tmp_path,
        memory__peak="4096\n",
        cpu__stat="usage_usec 1500000\nuser_usec 1\n",
        pids__peak="7\n",
        memory__events="low 0\noom 1\noom_kill 2\n",
        pids__events="max 3\n",
    )
    assert found.counters() == cgroup.Counters(4096, 1.5, 7, 2, 3)


def test_counters_of_cgroup_v1(tmp_path: Path) -> None:
    """The same from v1 files; what an old kernel does not count is None, not 0."""
    found = group(
        tmp_path,
        memory__max_usage_in_bytes="8192\n",
        cpuacct__usage="2500000000\n",
        memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    )
    assert found.counters() == cgroup.Counters(8192, 2.5, None, 1)


def test_a_group_that_is_gone_reads_as_nothing() -> None:
    """The scope vanishes with its last process; reading late is no error."""
    assert cgroup.of("/nonexistent").counters() == cgroup.Counters()


# -- what it holds ----------------------------------------------------------------------

V2 = {"memory__max": "1073741824", "pids__max": "23", "cpu__max": "150000 100000"}
V1 = {"memory__limit_in_bytes": "1073741824", "pids__max": "23",
      "cpu__cfs_quota_us": "150000", "cpu__cfs_period_us": "100000"}  # fmt: skip


@pytest.fixture
def no_swap(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine without swap, as /proc/swaps tells it; the file, to tell otherwise."""
    swaps = tmp_path_factory.mktemp("proc") / "swaps"
    swaps.write_text("Filename\t\t\t\tType\t\tSize\n")
    monkeypatch.setattr(cgroup, "_SWAPS", str(swaps))
    return swaps


@pytest.mark.parametrize(
    ("files", "missing"),
    [
        (V2, ()),
        ({"memory__max": "max", "pids__max": "max", "cpu__max": "max 100000"},
         ("memory", "cpu", "pids")),
        (V1, ()),
        ({"memory__limit_in_bytes": "9223372036854771712", "cpu__cfs_quota_us": "-1",
          "cpu__cfs_period_us": "100000", "pids__max": "23"}, ("memory", "cpu")),
        ({}, ("memory", "cpu", "pids")),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("no_swap")
def test_limits_are_believed_only_from_the_groups_own_files(
    tmp_path: Path, files: dict[str, str], missing: tuple[str, ...]
) -> None:
    """A manager without a controller takes the property and does nothing: it is found out."""
    assert group(tmp_path, **files).unheld(FULL) == missing
    assert group(tmp_path, **files).unheld(LimitsPlan()) == ()


@pytest.mark.parametrize(
    ("files", "missing"),
    [
        (V2 | {"memory__swap__max": "0"}, ()),
        (V2 | {"memory__swap__max": "max"}, ("swap",)),
        (V2, ("swap",)),  # no accounting of swap: nothing can close it
        (V1, ("swap",)),
        (V1 | {"memory__memsw__limit_in_bytes": "9223372036854771712"}, ("swap",)),
        (V1 | {"memory__memsw__limit_in_bytes": "1073741824"}, ()),
    ],
)
def test_memory_that_may_go_to_swap_is_not_held(
    tmp_path: Path, no_swap: Path, files: dict[str, str], missing: tuple[str, ...]
) -> None:
    """Over the cap it would be swapped out for ever instead of killed; without swap it cannot."""
    assert group(tmp_path, **files).unheld(FULL) == ()
    no_swap.write_text(no_swap.read_text() + "/swapfile file 1048572 0 -2\n")
    assert group(tmp_path, **files).unheld(FULL) == missing
    assert group(tmp_path, **files).unheld(LimitsPlan(pids=20)) == ()


# -- where it is ------------------------------------------------------------------------

UNIFIED = "29 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
HYBRID = (
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
    "40 31 0:37 / /sys/fs/cgroup/systemd rw - cgroup cgroup rw,name=systemd\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)


def test_a_group_of_cgroup_v2() -> None:
    """One folder for every controller."""
    found = cgroup.placed("0::/system.slice/a.scope\n", UNIFIED)
    assert found == cgroup.of("/sys/fs/cgroup/system.slice/a.scope")


def test_a_group_of_mixed_hierarchies() -> None:
    """Each controller in its own; one that stayed with an ancestor counts for others too."""
    membership = (
        "8:pids:/s/a.scope\n4:memory:/s\n1:cpu,cpuacct:/s/a.scope\n1:name=systemd:/s/a.scope\n"
        "0::/s/a.scope\n"
    )
    found = cgroup.placed(membership, HYBRID)
    assert found.pids == "/sys/fs/cgroup/pids/s/a.scope"
    assert found.cpu == found.cpuacct == "/sys/fs/cgroup/cpu,cpuacct/s/a.scope"
    # Beside v1 the unified one has no memory.max, so that nothing is believed of it.
    assert found.memory == "/sys/fs/cgroup/unified/s/a.scope"


@pytest.mark.parametrize(
    ("root", "path", "inside"),
    [
        ("/", "/", ""),
        ("/", "/a", "/a"),
        ("/docker/1", "/docker/1", ""),
        ("/docker/1", "/docker/1/a", "/a"),
        ("/docker/1", "/docker/12", None),  # a neighbour whose name begins alike
        ("/docker/1", "/", None),
        ("/../..", "/", None),  # the host's mount in a cgroup namespace: what lies between?
        ("/..", "/a", None),
        ("/..", "/../b", "/b"),  # a neighbour's group, by the names it has there
        ("/", "/../b", None),
        ("/with\\040blank", "/with blank/a", "/a"),
    ],
)
def test_a_mount_shows_only_what_lies_below_its_root(
    root: str, path: str, inside: str | None
) -> None:
    """Never another group's folder, such as the root of the host's, for one that is not shown."""
    mounts = f"29 23 0:26 {root} /cg rw - cgroup2 cgroup2 rw\n"
    wanted = "" if inside is None else f"/cg{inside}"
    assert cgroup.placed(f"0::{path}\n", mounts) == cgroup.of(wanted)


def test_the_mount_that_shows_the_group_is_taken() -> None:
    """The host's mount, seen first in a namespace, does not stand in for the namespace's own."""
    host = "28 23 0:26 /../.. /host rw - cgroup2 cgroup2 rw\n"
    own = "29 23 0:26 / /own rw - cgroup2 cgroup2 rw\n"
    assert cgroup.placed("0::/a\n", host + own) == cgroup.of("/own/a")


def test_the_own_group_is_found() -> None:
    """The folders found for this very process list it, as far as its mounts show them."""
    found = [folder for folder in cgroup.find(os.getpid()) if folder]
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    shown = [line for line in mounts if " - cgroup" in line and line.split()[3][:3] != "/.."]
    assert bool(found) == bool(shown)
    listed = [Path(folder, "cgroup.procs").read_text().split() for folder in found]
    assert all(str(os.getpid()) in pids for pids in listed)
