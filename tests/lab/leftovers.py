"""What is there before and after: processes, mounts, links, control groups, files."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from lab import processes
from lab.systemd import RUN_GROUP, SystemdLab

__all__ = ["Snapshot", "adopting", "in_lab", "left_over", "on_host"]

PR_SET_CHILD_SUBREAPER = 36
SETTLE_S = 4.0
#: Names that runs of ours give; other programs of the machine come and go meanwhile.
OURS = re.compile(r"axon|^run-")
#: Groups that stay: where commands of the lab start, and the parent of every slice of ours.
LASTING = (RUN_GROUP, "axonkernel.slice")
#: What tests themselves, and a bench that runs beside them, put into the folders compared.
TEST_OWN = re.compile(r"^(axonlab-|axon-user-|axonkernel-bench-|work\.|systemd-private-)")


class Snapshot(NamedTuple):
    """What was there at one moment, as text."""

    processes: frozenset[str]
    mounts: frozenset[str]
    links: frozenset[str]
    groups: frozenset[str]
    files: frozenset[str]


def left_over(
    before: Snapshot, now: Callable[[], Snapshot], settle_s: float = SETTLE_S
) -> list[str]:
    """What is there now and was not before, once it had ``settle_s`` seconds to go away."""
    deadline = time.monotonic() + settle_s
    while True:
        after = now()
        found = [
            f"{kind}: {item}"
            for kind, old, new in zip(Snapshot._fields, before, after, strict=True)
            for item in sorted(new - old)
        ]
        if not found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def on_host(holders: Iterable[int] = ()) -> Snapshot:
    """This machine, as far as it is ours: below this process, and names with axon in them.

    Arguments:
        holders: processes of the test run itself, left out with all below them.
    """
    known = {pid for holder in holders for pid in (holder, *processes.descendants(holder))}
    running = [pid for pid in processes.descendants(os.getpid()) if pid not in known]
    return Snapshot(
        processes=frozenset(filter(None, (described(Path("/proc"), pid) for pid in running))),
        mounts=mounts(os.getpid()),
        links=links(os.getpid()),
        groups=frozenset(group_names("/sys/fs/cgroup")),
        files=frozenset(named_files("/tmp", "/dev/shm", "/run", os.environ.get("TMPDIR", "/tmp"))),
    )


def in_lab(lab: SystemdLab) -> Snapshot:
    """The whole lab, except the services that systemd itself runs there."""
    root = f"/proc/{lab.leader}/root"
    proc = Path(root, "proc")
    running = (described(proc, pid) for pid in lab.processes() if not is_service(proc, pid))
    names = {name for group in lab.groups for name in group_names(group)}
    return Snapshot(
        processes=frozenset(filter(None, running)),
        mounts=mounts(lab.leader),
        links=links(lab.leader),
        groups=frozenset(names | units(lab)),
        files=frozenset(path for folder in ("/tmp", "/dev/shm") for path in entries(root, folder))
        | frozenset(named_files(f"{root}/run", f"{root}/run/user/{lab.uid}")),
    )


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """Orphans of a test become children of this process instead of the machine's pid 1.

    At the end those that have ended are reaped; lingering they would hold up the end of the
    pid namespace they lived in.
    """
    prctl = ctypes.CDLL(None).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def described(proc: Path, pid: int) -> str:
    """Pid, start time and command line: the same pid twice is not the same process."""
    with contextlib.suppress(OSError):
        started = (proc / str(pid) / "stat").read_text().rpartition(") ")[2].split()[19]
        line = (proc / str(pid) / "cmdline").read_bytes().replace(b"\0", b" ")
        return f"{pid} (started {started}) {line.decode(errors='replace').strip()}"
    return ""


def is_service(proc: Path, pid: int) -> bool:
    with contextlib.suppress(OSError):
        groups = (proc / str(pid) / "cgroup").read_text()
        return pid == 1 or (".service" in groups and "axonkernel" not in groups)
    return True


def mounts(pid: int) -> frozenset[str]:
    # Without ids and propagation: source, type and place.
    lines = Path(f"/proc/{pid}/mountinfo").read_text().splitlines()
    return frozenset(f"{line.split()[4]} ({line.partition(' - ')[2]})" for line in lines)


def links(pid: int) -> frozenset[str]:
    lines = Path(f"/proc/{pid}/net/dev").read_text().splitlines()[2:]
    return frozenset(line.partition(":")[0].strip() for line in lines)


def group_names(top: str) -> Iterable[str]:
    for _, folders, _ in os.walk(top):
        # Labs of this or another test run are no leftovers of the thing under test.
        folders[:] = [name for name in folders if not name.startswith("axonlab-")]
        for name in folders:
            if OURS.search(name) and name not in LASTING:
                yield name


def units(lab: SystemdLab) -> set[str]:
    words = "systemctl list-units --all --plain --no-legend --type=scope,slice,service".split()
    lines = lab.run(words).stdout.splitlines()
    names = {line.split()[0] for line in lines if line}
    return {name for name in names if OURS.search(name) and name not in LASTING}


def entries(root: str, folder: str) -> Iterable[str]:
    for name in os.listdir(root + folder):
        if not TEST_OWN.search(name):
            yield f"{folder}/{name}"


def named_files(*folders: str) -> Iterable[str]:
    for folder in folders:
        with contextlib.suppress(FileNotFoundError):
            for name in os.listdir(folder):
                if "axon" in name and not TEST_OWN.search(name):
                    yield f"{folder}/{name}"
