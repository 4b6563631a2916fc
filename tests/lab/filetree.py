"""The lab's file tree: overlays of this machine, private /proc, /sys, /dev, /run, /tmp."""

from __future__ import annotations

import os
import stat

from lab.groups import mount_groups
from lab.syscalls import (
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_PRIVATE,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    Failed,
    Mounted,
    mount,
    mounts,
    pivot,
    step,
)

#: Usable by everybody, as udev makes them on an ordinary machine.
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fuse", "net/tun")
VIRTUAL = frozenset(
    "autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl "
    "hugetlbfs mqueue nsfs proc pstore ramfs rpc_pipefs securityfs sysfs tmpfs tracefs".split()
)
#: Replaced by private ones in the lab; what lies below them on the host is not there.
PRIVATE = ("/tmp", "/run", "/dev", "/proc", "/sys")


def lowers(visible: list[str]) -> list[tuple[str, int, bool]]:
    """Folders to overlay: (path, descriptor, needed). ``/`` comes first, deeper ones later."""
    found = {"/": True}
    for each in mounts():
        if each.kind not in VIRTUAL and not hidden(each.point) and os.path.isdir(each.point):
            found.setdefault(each.point, False)
    for path in visible:
        device = os.stat(path).st_dev
        if hidden(path) or not any(
            covers(point, path) and os.stat(point).st_dev == device for point in found
        ):
            found[path] = True
    return [
        (path, os.open(path, os.O_PATH | os.O_DIRECTORY), needed)
        for path, needed in sorted(found.items())
    ]


def hidden(path: str) -> bool:
    return any(covers(folder, path) for folder in PRIVATE)


def covers(folder: str, path: str) -> bool:
    return folder == "/" or path == folder or path.startswith(folder + "/")


def overlay(path: str, lower: int, number: int) -> None:
    """An overlay of the folder at its own place in the new root; writes go to memory."""
    upper, work, target = f"/tmp/{number}/upper", f"/tmp/{number}/work", "/tmp/root" + path
    for folder in (upper, work, target):
        os.makedirs(folder, exist_ok=True)
    os.chmod(upper, os.fstat(lower).st_mode & 0o7777)
    os.chown(upper, os.fstat(lower).st_uid, os.fstat(lower).st_gid)
    # By descriptor and ".": a path may hold commas or colons, and may be covered by now.
    os.fchdir(lower)
    mount("overlay", target, "overlay", 0, f"lowerdir=.,upperdir={upper},workdir={work}")


def make_root(visible: list[str], groups: list[tuple[Mounted, str]]) -> None:
    """Build the lab's file tree in /tmp of a private mount namespace and move into it."""
    with step("make / private"):
        mount("none", "/", "", MS_REC | MS_PRIVATE)
    with step("open the folders the lab shows"):
        folders = lowers(visible)
    with step("mount a tmpfs for the overlay"):
        mount("axonlab", "/tmp", "tmpfs", 0, "mode=755")
    first, *rest = folders
    with step("mount an overlay of / (is / itself a stack of overlays, or the module missing?)"):
        overlay(first[0], first[1], 0)
    with step("mount /proc, /sys, /dev, /run and /tmp of the lab"):
        private_mounts(groups)
    for number, (path, lower, needed) in enumerate(rest, 1):
        try:
            overlay(path, lower, number)
        except OSError as error:
            if needed:
                raise Failed(f"mount an overlay of {path}: {error.strerror}") from error
    with step("move into the new root"):
        pivot("/tmp/root")


def private_mounts(groups: list[tuple[Mounted, str]]) -> None:
    os.chdir("/tmp/root")
    # Nothing may cover parts of /proc, or no user namespace could mount its own (bwrap does).
    mount("proc", "./proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("sysfs", "./sys", "sysfs", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mount("none", "./sys", "", MS_BIND | MS_REMOUNT | MS_RDONLY)
    mount_groups(groups)
    mount("tmpfs", "./dev", "tmpfs", MS_NOSUID, "mode=755")
    fill_dev()
    mount("tmpfs", "./run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=755")
    os.makedirs("./run/lock")
    mount("tmpfs", "./tmp", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")


def fill_dev() -> None:
    os.umask(0)
    for name in DEVICES:
        if not os.path.exists(f"/dev/{name}"):
            continue
        os.makedirs(os.path.dirname(f"./dev/{name}"), exist_ok=True)
        os.mknod(f"./dev/{name}", stat.S_IFCHR | 0o666, os.stat(f"/dev/{name}").st_rdev)
    for folder in ("pts", "shm", "mqueue"):
        os.mkdir(f"./dev/{folder}")
    mount("devpts", "./dev/pts", "devpts", MS_NOSUID, "newinstance,ptmxmode=0666,mode=620,gid=5")
    mount("tmpfs", "./dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777")
    mount("mqueue", "./dev/mqueue", "mqueue", MS_NOSUID | MS_NODEV)
    links = {
        "fd": "/proc/self/fd",
        "stdin": "/proc/self/fd/0",
        "stdout": "/proc/self/fd/1",
        "stderr": "/proc/self/fd/2",
        "ptmx": "pts/ptmx",
    }
    for name, target in links.items():
        os.symlink(target, f"./dev/{name}")
    os.umask(0o022)
