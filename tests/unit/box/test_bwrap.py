"""Plan -> the words of bwrap, with descriptors that are only counted."""

from __future__ import annotations

import pytest

from axonkernel.box import bwrap
from axonkernel.box.model import BoxPlan, Command, Mount, NetPlan

COMMAND = Command(("true",))


def words(plan: BoxPlan, command: Command = COMMAND, **fds: int) -> tuple[list[str], list[object]]:
    """The options, and what descriptors 100, 101, ... stand for."""
    asked: list[object] = []

    def descriptor(kind: str, value: str) -> int:
        asked.append((kind, value))
        return 99 + len(asked)

    given = {"status_fd": 5, "block_fd": 6, "filter_fd": 7} | fds
    return bwrap.arguments(plan, command, descriptor, **given), asked


def test_the_smallest_box() -> None:
    """Namespaces, privileges, an empty environment, then the three descriptors."""
    found, asked = words(BoxPlan(env=(("A", "b=c"),), cwd="/ws"))
    assert found == [
        *("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--die-with-parent", "--new-session"),
        *("--cap-drop", "ALL", "--clearenv", "--hostname", "box", "--disable-userns"),
        *("--json-status-fd", "5", "--setenv", "A", "b=c", "--chdir", "/ws"),
        *("--block-fd", "6", "--seccomp", "7"),
    ]
    assert asked == []


@pytest.mark.parametrize(
    ("mount", "expected", "asked"),
    [
        (Mount("bind", "/d", "/s"), ["--bind-fd", "100", "/d"], [("open", "/s")]),
        (Mount("ro-bind", "/d", "/s"), ["--ro-bind-fd", "100", "/d"], [("open", "/s")]),
        (Mount("tmpfs", "/d", mode=0o1777, size_bytes=9),
         ["--perms", "1777", "--size", "9", "--tmpfs", "/d"], []),
        (Mount("tmpfs", "/d"), ["--perms", "0755", "--tmpfs", "/d"], []),
        (Mount("proc", "/proc"), ["--proc", "/proc"], []),
        (Mount("dev", "/dev"), ["--dev", "/dev"], []),
        (Mount("dir", "/d"), ["--perms", "0755", "--dir", "/d"], []),
        (Mount("symlink", "/d", "t"), ["--symlink", "t", "/d"], []),
        (Mount("copy", "/d", "/s", 0o444), ["--perms", "0444", "--file", "100", "/d"],
         [("read", "/s")]),
        (Mount("data", "/d", data="x"), ["--perms", "0755", "--file", "100", "/d"],
         [("text", "x")]),
        (Mount("data-over", "/d", mode=0o444, data="x"),
         ["--perms", "0444", "--ro-bind-data", "100", "/d"], [("text", "x")]),
        (Mount("mask-file", "/d"), ["--perms", "0000", "--ro-bind-data", "100", "/d"],
         [("text", "")]),
        (Mount("mask-dir", "/d"),
         ["--perms", "0000", "--tmpfs", "/d", "--remount-ro", "/d"], []),
        (Mount("remount-ro", "/d"), ["--remount-ro", "/d"], []),
    ],
    ids=lambda value: value.kind if isinstance(value, Mount) else "",
)  # fmt: skip
def test_each_kind_of_mount(mount: Mount, expected: list[str], asked: list[object]) -> None:
    """One option each; sources by descriptor, never by a name that may be reused."""
    found, descriptors = words(BoxPlan(mounts=(mount,)))
    start = found.index("--json-status-fd") + 2
    assert found[start : found.index("--chdir")] == expected
    assert descriptors == asked


def test_masks_do_not_share_a_descriptor() -> None:
    """bwrap closes one after its first use."""
    plan = BoxPlan(mounts=tuple(Mount("mask-file", f"/{n}") for n in range(3)))
    found, asked = words(plan)
    used = [found[at + 1] for at, word in enumerate(found) if word == "--ro-bind-data"]
    assert used == ["100", "101", "102"] and len(asked) == 3


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
