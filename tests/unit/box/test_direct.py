"""Limits without systemd: the writes, against folders that stand in for cgroupfs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from axonkernel.box import cgroup, direct
from axonkernel.box.model import LimitsPlan
from axonkernel.box.owner import unique_name
from lab.user import OrdinaryUser

FULL = LimitsPlan(memory_bytes=1 << 30, cpu_millicores=1500, wall_s=60.0, pids=20)
ALL = frozenset({"memory", "cpu", "pids"})
LIMIT_FILES = ("memory.max", "memory.swap.max", "memory.oom.group", "pids.max", "cpu.max")


def stand_in(folder: Path, *, pids: str = "", controllers: str = "", given: str = "") -> Path:
    """A folder with the files that the kernel makes in a group."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "cgroup.procs").write_text(pids)
    (folder / "cgroup.controllers").write_text(controllers)
    (folder / "cgroup.subtree_control").write_text(given)
    return folder


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the files of a group with its folder, as cgroupfs does."""
    mkdir = os.mkdir

    def make(path: str, mode: int = 0o777) -> None:
        mkdir(path, mode)
        stand_in(Path(path), controllers="cpu memory pids")
        for name in LIMIT_FILES:
            Path(path, name).write_text("")

    monkeypatch.setattr(os, "mkdir", make)


def test_what_is_written() -> None:
    """Every limit; one kill for memory ends all, and nothing goes to swap."""
    assert dict(direct.settings(FULL)) == {
        "memory.oom.group": "1",
        "memory.swap.max": "0",
        "memory.max": str(1 << 30),
        "pids.max": str(20 + cgroup.OWN_TASKS),
        "cpu.max": "150000 100000",
    }
    assert dict(direct.settings(LimitsPlan(pids=20), boxes=4)) == {
        "pids.max": str(20 + 4 * cgroup.OWN_TASKS)
    }
    assert direct.settings(LimitsPlan(wall_s=1.0)) == ()


def test_a_tiny_share_of_a_processor_is_one_the_kernel_takes() -> None:
    """No quota below a millisecond is accepted: a longer period keeps the share."""
    assert dict(direct.settings(LimitsPlan(cpu_millicores=1)))["cpu.max"] == "1000 1000000"
    assert dict(direct.settings(LimitsPlan(cpu_millicores=10)))["cpu.max"] == "1000 100000"


def test_the_controllers_that_limits_need() -> None:
    """Only those: a machine without one holds the other limits."""
    assert direct.controllers(FULL) == ALL
    assert direct.controllers(LimitsPlan(pids=1, wall_s=2.0)) == {"pids"}


# -- where a group can be made ------------------------------------------------------------


def test_the_nearest_group_that_hands_controllers_on(tmp_path: Path) -> None:
    """As a container or a delegated unit has it: our group has a parent that is ours too."""
    top = stand_in(tmp_path / "top", given="cpu memory pids")
    ours = stand_in(top / "ours", given="cpu memory pids")
    leaf = stand_in(ours / "leaf", pids="1\n", controllers="cpu memory pids")
    assert direct.parent(ALL, str(leaf)) == str(ours)
    (ours / "cgroup.subtree_control").write_text("pids")
    assert direct.parent(frozenset({"pids"}), str(leaf)) == str(ours)
    assert direct.parent(ALL, str(leaf)) == str(top)


def test_without_delegation_there_is_none(tmp_path: Path) -> None:
    """No group at all, no controllers, or other processes in the only group that has them."""
    assert direct.parent(ALL, "") == ""
    bare = stand_in(tmp_path / "bare", pids=f"{os.getpid()}\n")
    assert direct.parent(ALL, str(bare)) == ""
    assert not (bare / "axonkernel-supervisor").exists()


@pytest.mark.usefixtures("kernel")
def test_the_group_we_are_alone_in_becomes_the_parent(tmp_path: Path) -> None:
    """This process and its children move below it; then it hands its controllers on."""
    with subprocess.Popen(["sleep", "30"]) as child:
        pids = f"{os.getpid()}\n{child.pid}\n"
        own = stand_in(tmp_path / "own", pids=pids, controllers="cpu io memory pids")
        found = direct.parent(ALL, str(own))
        child.kill()
    assert found == str(own)
    # The kernel takes one number a write; in a plain file a short one leaves a longer's end.
    moved = (own / "axonkernel-supervisor/cgroup.procs").read_text()
    assert any(moved.startswith(pid) for pid in pids.split())
    assert (own / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"


@pytest.mark.usefixtures("kernel")
def test_other_processes_are_not_moved(tmp_path: Path) -> None:
    """A process that is not ours stays where it is."""
    own = stand_in(tmp_path / "own", pids=f"{os.getpid()}\n1\n", controllers="cpu memory pids")
    direct.parent(ALL, str(own))
    assert not (own / "axonkernel-supervisor").exists()
    assert (own / "cgroup.procs").read_text() == f"{os.getpid()}\n1\n"


def test_a_group_of_another_owner_is_none_of_ours(ordinary_user: OrdinaryUser) -> None:
    """Seen by a user who may not write it: not delegated, whatever it hands on."""
    mine = stand_in(ordinary_user.home / "mine", given="cpu memory pids")
    theirs = stand_in(mine / "theirs", given="cpu memory pids")
    for path in (mine, *mine.iterdir()):
        if ordinary_user.root and path != theirs:
            os.chown(path, ordinary_user.uid, -1)
    if not ordinary_user.root:
        theirs.chmod(0o555)
    try:
        assert ordinary_user.call(direct.parent, ALL, str(theirs)) == str(mine)
    finally:
        theirs.chmod(0o755)  # so that it can be removed


# -- making and taking away ---------------------------------------------------------------


@pytest.mark.usefixtures("kernel")
def test_a_group_holds_the_limits_before_anybody_is_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Limits first, then the processes, one write each; cgroup.py believes the result."""
    written: list[tuple[str, str]] = []
    write = direct._write

    def seen(path: str, text: str) -> None:
        written.append((os.path.basename(path), text))
        write(path, text)

    monkeypatch.setattr(direct, "_write", seen)
    folder = direct.make(str(tmp_path), FULL, [11, 22])
    assert written[-2:] == [("cgroup.procs", "11"), ("cgroup.procs", "22")]
    assert {name for name, _ in written[:-2]} == set(LIMIT_FILES)
    assert cgroup.of(folder).unheld(FULL) == ()
    assert Path(folder).parent == tmp_path


@pytest.mark.usefixtures("kernel")
def test_a_shared_group_hands_its_controllers_on(tmp_path: Path) -> None:
    """So that each box in it has limits of its own as well."""
    folder = direct.make(str(tmp_path), FULL, [], boxes=64, shared=True)
    assert Path(folder, "cgroup.subtree_control").read_text() == "+cpu +memory +pids"
    assert Path(folder, "pids.max").read_text() == str(20 + 64 * cgroup.OWN_TASKS)


def test_a_group_without_its_files_is_no_group(tmp_path: Path) -> None:
    """A controller that is not there: an error, and the folder is gone again. Nothing is
    created in its place, which in an ordinary folder would look like success."""
    with pytest.raises(FileNotFoundError):
        direct.make(str(tmp_path), LimitsPlan(pids=5), [])
    assert list(tmp_path.iterdir()) == []


def test_groups_of_dead_supervisors_are_swept(tmp_path: Path) -> None:
    """Ours and other folders stay."""
    with subprocess.Popen(["true"]) as process:
        process.wait()
    ours = unique_name()
    dead = ours.replace(f"-{os.getpid()}s", f"-{process.pid}s")
    for name in (ours, dead, "other"):
        (tmp_path / name).mkdir()
    direct.sweep(str(tmp_path))
    assert {path.name for path in tmp_path.iterdir()} == {ours, "other"}
