"""How a plan's mounts become steps, read as values."""

from __future__ import annotations

import pytest

from axonkernel.box.model import Mount
from axonkernel.box.steps import Step, between, steps

ROOT = Step(Mount("tmpfs", "/"))


def same(kind: str, path: str) -> Mount:
    return Mount(kind, path, path)  # type: ignore[arg-type]


def folder(path: str, base: str = "/") -> Step:
    return Step(Mount("dir", path), base)


WS = same("bind", "/ws")


def test_a_closed_box() -> None:
    """Folders on the way are made once, in the tmpfs they lie in; inside a grant nothing is
    made; bwrap's own place is made before the root becomes read-only."""
    mounts = (
        Mount("symlink", "/bin", "usr/bin"),
        Mount("copy", "/etc/hosts", "/etc/hosts", 0o444),
        Mount("proc", "/proc"),
        same("ro-bind", "/etc/ssl"),
        Mount("tmpfs", "/home/u"),
        same("bind", "/home/u/ws/deep"),
        Mount("mask-file", "/home/u/ws/deep/a/key"),
        Mount("remount-ro", "/"),
    )
    assert steps(mounts).tree == (
        ROOT,
        Step(mounts[0], "/"),
        folder("/etc"),
        Step(mounts[1], "/"),
        Step(mounts[3], "/"),
        folder("/home"),
        Step(mounts[4], "/"),
        folder("/home/u/ws", "/home/u"),
        Step(mounts[5], "/home/u"),
        Step(mounts[6]),
        folder("/proc"),
        Step(mounts[7]),
    )
    assert steps(mounts).bwrap == (mounts[2],)


def test_a_root_that_is_the_hosts() -> None:
    """Nothing is made in it, but in what replaces its folders."""
    mounts = (
        same("ro-bind", "/"),
        Mount("proc", "/proc"),
        Mount("tmpfs", "/run"),
        same("ro-bind", "/proc/sys"),
        Mount("data-over", "/etc/resolv.conf", mode=0o444, data="x"),
        Mount("mask-dir", "/srv/key"),
    )
    found = steps(mounts)
    assert found.tree == tuple(Step(mounts[at]) for at in (0, 2, 4, 5))
    assert found.bwrap == (mounts[1], mounts[3])


def test_a_grant_inside_a_denied_folder() -> None:
    """It lies in the folder that covers the denied one, and so do its own masks."""
    closed = Mount("tmpfs", "/ws/private", mode=0o111)
    granted, mask = same("ro-bind", "/ws/private/a/b"), Mount("mask-file", "/ws/private/a/b/key")
    shut = Mount("remount-ro", "/ws/private")
    assert steps((WS, closed, granted, mask, shut)).tree == (
        ROOT,
        Step(WS, "/"),
        Step(closed),
        folder("/ws/private/a", "/ws/private"),
        Step(granted, "/ws/private"),
        Step(mask),
        Step(shut),
    )


def test_a_file_over_one_in_a_folder_of_our_own_is_just_a_file() -> None:
    """Such as resolv.conf where the host's is a link into /run."""
    mounts = (Mount("tmpfs", "/run"), Mount("data-over", "/run/resolv.conf", data="x"))
    assert steps(mounts).tree[-1] == Step(Mount("data", "/run/resolv.conf", data="x"), "/run")


@pytest.mark.parametrize("link", ["/ws/lib", "/ws/a/lib", "/bin/lib"])
def test_a_place_that_is_a_link_is_mounted_where_it_leads(link: str) -> None:
    """In a grant or behind a link of our own; by depth, so that what is deeper comes after."""
    deeper = Mount("mask-file", "/data/lib/a/key")
    bin_link = Mount("symlink", "/bin", "usr/bin")
    given = (bin_link, WS, Mount("ro-bind", link, "/data/lib"), deeper)
    placed = [step.mount for step in steps(given).tree if step.mount.kind != "dir"]
    assert placed == [ROOT.mount, bin_link, WS, same("ro-bind", "/data/lib"), deeper]


def test_what_a_link_leads_to_is_mounted_once() -> None:
    """It has a mount of its own already: a grant, which keeps its kind."""
    data = same("bind", "/data")
    found = steps((WS, data, Mount("ro-bind", "/ws/data", "/data")))
    assert [step.mount for step in found.tree] == [ROOT.mount, WS, data]


def test_devices() -> None:
    """The harmless ones, terminals of the box's own, and the terminal it writes to."""
    found = [step.mount for step in steps((Mount("dev", "/dev"),), "/dev/pts/7").tree]
    assert {m.source for m in found if m.kind == "device"} == {
        *("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"),
        "/dev/pts/7",
    }
    assert Mount("devpts", "/dev/pts") in found and Mount("tmpfs", "/dev") in found
    assert Mount("device", "/dev/console", "/dev/pts/7") in found
    without = [step.mount.dest for step in steps((Mount("dev", "/dev"),)).tree]
    assert "/dev/console" not in without


def test_folders_between() -> None:
    """Outermost first, neither end."""
    assert list(between("/", "/a/b/c")) == ["/a", "/a/b"]
    assert list(between("/a", "/a/b/c/d")) == ["/a/b", "/a/b/c"]
    assert list(between("/", "/a")) == []


def test_the_number_of_mounts_is_no_trouble() -> None:
    """Twenty thousand masks, each a step of its own and nothing more."""
    masks = tuple(Mount("mask-file", f"/ws/{number}") for number in range(20_000))
    assert len(steps((WS, *masks)).tree) == 20_002
