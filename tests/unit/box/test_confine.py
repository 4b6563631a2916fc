"""What a command is confined to where no box can be made, as a value."""

from __future__ import annotations

from axonkernel.box import confine
from axonkernel.box.model import Mount


def test_mounts_become_reach() -> None:
    """Sources of binds and files that are copied or written; what a box has of its own is
    the scratch folder; links, masks and empty folders bring nothing."""
    mounts = (
        Mount("symlink", "/lib", "usr/lib"),
        Mount("copy", "/etc/hostname", "/etc/hostname"),
        Mount("data", "/etc/passwd", data="x"),
        Mount("tmpfs", "/tmp"),
        Mount("tmpfs", "/home/u"),
        Mount("proc", "/proc"),
        Mount("dev", "/dev"),
        Mount("ro-bind", "/usr/lib", "/usr/lib"),
        Mount("bind", "/w/out", "/w/out"),
        Mount("mask-file", "/w/out/.env"),
        Mount("remount-ro", "/"),
    )
    reach = confine.paths(mounts, ("/tmp/own",))
    assert reach.read == ("/usr/lib", "/etc/hostname", "/etc/passwd", "/proc")
    folders = [path for path in reach.write if not path.startswith("/dev/")]
    assert folders == ["/w/out", "/tmp/own"]
    assert {"/dev/null", "/dev/pts", "/dev/tty"} < set(reach.write)
    assert "/dev" not in reach.write and "/" not in reach.read
