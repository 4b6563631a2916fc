"""Plan -> the words of bwrap, with descriptors that are only counted."""

from __future__ import annotations

import pytest

from axonkernel.box import bwrap
from axonkernel.box.model import BoxPlan, Command, Mount, NetPlan
from axonkernel.errors import BoxError

COMMAND = Command(("true",))


def words(
    plan: BoxPlan, command: Command = COMMAND, *mounts: Mount, **fds: int
) -> tuple[list[str], list[str]]:
    """The options, and what descriptors 100, 101, ... stand for."""
    asked: list[str] = []

    def descriptor(path: str) -> int:
        asked.append(path)
        return 99 + len(asked)

    given = {"status_fd": 5, "block_fd": 6, "filter_fd": 7} | fds
    found = bwrap.arguments(plan, command, "/mnt", mounts, descriptor, ids=(8, 9), **given)
    return found, asked


def test_the_smallest_box() -> None:
    """Namespaces, privileges, an empty environment, then the three descriptors."""
    found, asked = words(BoxPlan(env=(("A", "b=c"),), cwd="/ws"))
    assert found == [
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--die-with-parent", "--new-session"),
        *("--cap-drop", "ALL", "--clearenv", "--hostname", "box", "--disable-userns"),
        *("--uid", "8", "--gid", "9"),
        *("--json-status-fd", "5", "--dev-bind", "/mnt", "/"),
        *("--setenv", "A", "b=c", "--chdir", "/ws"),
        *("--block-fd", "6", "--seccomp", "7"),
    ]
    assert asked == []


def test_what_bwrap_mounts_over_the_tree() -> None:
    """In order; sources by descriptor, never by a name that may be reused."""
    mounts = (
        Mount("proc", "/proc"),
        Mount("ro-bind", "/proc/sys", "/proc/sys"),
        Mount("bind", "/proc/x", "/d"),
    )
    found, asked = words(BoxPlan(), COMMAND, *mounts)
    assert found[found.index("--dev-bind") : found.index("--chdir")] == [
        *("--dev-bind", "/mnt", "/", "--proc", "/proc"),
        *("--ro-bind-fd", "100", "/proc/sys", "--bind-fd", "101", "/proc/x"),
    ]
    assert asked == ["/proc/sys", "/d"]


def test_what_only_the_tree_can_hold_is_refused() -> None:
    """A mask in /proc would be made by nobody: there is no box then."""
    with pytest.raises(BoxError, match="/proc/x: no mask-file can be made there"):
        words(BoxPlan(), COMMAND, Mount("mask-file", "/proc/x"))


def test_what_depends_on_the_plan() -> None:
    """A network of its own only with ``net``; nested namespaces only when asked for."""
    assert "--unshare-net" not in words(BoxPlan())[0]
    assert "--unshare-net" in words(BoxPlan(net=NetPlan()))[0]
    assert "--disable-userns" not in words(BoxPlan(deny_new_userns=False))[0]
    none = words(BoxPlan(), block_fd=-1, filter_fd=-1)[0]
    assert "--block-fd" not in none and "--seccomp" not in none


def test_a_command_has_its_own_environment_and_folder() -> None:
    """They stand in for the plan's; an empty environment is one too."""
    plan = BoxPlan(env=(("A", "1"),), cwd="/ws")
    found, _ = words(plan, Command(("true",), cwd="/other", env=()))
    assert "--setenv" not in found and found[found.index("--chdir") + 1] == "/other"
