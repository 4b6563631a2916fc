"""Holds a throw-away systemd: the process between a test run and the lab it made.

Runs as a program of its own, standard library only::

    python3 -IS boot.py '{"parent": PID, "visible": [...]}'

It makes control groups for the lab, forks a process that unshares every namespace and
execs systemd over an overlay of ``/``, prints one JSON line (``leader`` and ``groups``, or
``error``) and waits. When standard input closes, or the parent dies in whatever way, it
kills the lab and removes its groups. So a killed test run leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import re
import select
import signal
import socket
import stat
import struct
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

PREFIX = "axonlab-"
CGROUP_ROOT = "/sys/fs/cgroup"
END_S = 10.0

NEW_NS, NEW_CGROUP, NEW_UTS = 0x00020000, 0x02000000, 0x04000000
NEW_IPC, NEW_PID, NEW_NET = 0x08000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_CAPBSET_DROP = 1, 24
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}.get(os.uname().machine, 155)

#: Reach the machine, not the lab: modules, raw devices, the clock, the kernel log.
DROPPED_CAPS = {"sys_module": 16, "sys_rawio": 17, "sys_time": 25, "syslog": 34}
#: Usable by everybody, as udev makes them on an ordinary machine.
DEVICES = ("null", "zero", "full", "random", "urandom", "tty", "fuse", "net/tun")
VIRTUAL = frozenset(
    "autofs binfmt_misc bpf cgroup cgroup2 configfs debugfs devpts devtmpfs efivarfs fusectl "
    "hugetlbfs mqueue nsfs proc pstore ramfs rpc_pipefs securityfs sysfs tmpfs tracefs".split()
)
#: Replaced by private ones in the lab; what lies below them on the host is not there.
PRIVATE = ("/tmp", "/run", "/dev", "/proc", "/sys")
#: Units that would change the machine rather than the lab, or only cost time.
MASKED = (
    "systemd-sysctl.service systemd-modules-load.service systemd-binfmt.service "
    "systemd-udevd.service systemd-udevd-control.socket systemd-udevd-kernel.socket "
    "systemd-udev-trigger.service systemd-udev-settle.service systemd-networkd.service "
    "systemd-resolved.service systemd-timesyncd.service systemd-random-seed.service "
    "systemd-tmpfiles-setup-dev.service systemd-journal-flush.service systemd-pstore.service "
    "systemd-hwdb-update.service proc-sys-fs-binfmt_misc.automount dev-hugepages.mount "
    "dev-mqueue.mount sys-kernel-config.mount sys-kernel-debug.mount sys-kernel-tracing.mount "
    "sys-fs-fuse-connections.mount modprobe@.service getty.target remote-fs.target"
).split()
TARGET = """[Unit]
Description=Everything the lab needs
Requires=basic.target dbus.socket
Wants=systemd-logind.service dbus.service
After=basic.target dbus.socket systemd-logind.service
AllowIsolate=yes
"""

libc = ctypes.CDLL(None, use_errno=True)


class Failed(Exception):
    """The lab could not be made; the text says which step and why."""


class Mounted(NamedTuple):
    """One line of mountinfo."""

    root: str
    point: str
    kind: str
    options: str


@contextlib.contextmanager
def step(name: str) -> Iterator[None]:
    """Name the step an OSError happened in."""
    try:
        yield
    except OSError as error:
        raise Failed(f"{name}: {error.strerror or error}") from error


def check(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def mount(source: str, target: str, kind: str, flags: int = 0, data: str = "") -> None:
    arguments = [text.encode() or None for text in (source, target, kind)]
    check(libc.mount(*arguments, ctypes.c_ulong(flags), data.encode() or None))


def mounts() -> list[Mounted]:
    """The mounts this process sees, in the order they were made."""
    found = []
    with open("/proc/self/mountinfo") as lines:
        for line in lines:
            left, _, right = line.rstrip("\n").partition(" - ")
            fields, (kind, _, options) = left.split(" "), right.split(" ", 2)
            point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
            found.append(Mounted(fields[3], point, kind, options))
    return found


# -- control groups ------------------------------------------------------------------------


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


# -- the file tree -------------------------------------------------------------------------


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
        os.chdir("/tmp/root")
        check(libc.syscall(SYS_PIVOT_ROOT, b".", b"."))
        check(libc.umount2(b".", MNT_DETACH))
        os.chdir("/")


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
    links = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1",
             "stderr": "/proc/self/fd/2", "ptmx": "pts/ptmx"}
    for name, target in links.items():
        os.symlink(target, f"./dev/{name}")
    os.umask(0o022)


# -- what systemd finds --------------------------------------------------------------------


def furnish(uid: int, name: str, home: str) -> None:
    """Leave systemd only the lab's own target; give the ordinary user a home and a manager."""
    for folder in ("/etc/systemd/system", "/etc/systemd/user"):
        drop_wants(folder)
    for unit in MASKED:
        path = f"/etc/systemd/system/{unit}"
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        os.symlink("/dev/null", path)
    write("/etc/systemd/system/axonlab.target", TARGET)
    write("/etc/fstab", "")
    write("/etc/crypttab", "")
    write("/etc/hostname", "axonlab\n")
    os.makedirs("/var/lib/systemd/linger", exist_ok=True)
    write(f"/var/lib/systemd/linger/{name}", "")
    os.makedirs(home, exist_ok=True)
    os.chown(home, uid, uid)
    socket.sethostname("axonlab")


def drop_wants(folder: str) -> None:
    """Disable every unit this machine enabled: none of them belongs into the lab."""
    for parent, _, files in os.walk(folder):
        if parent.endswith((".wants", ".requires")):
            for name in files:
                os.unlink(os.path.join(parent, name))


def write(path: str, text: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def add_user(uid: int) -> tuple[str, str]:
    """Name and home of the uid; it is added to the lab's passwd when nobody has it."""
    with open("/etc/passwd") as lines:
        for line in lines:
            fields = line.rstrip("\n").split(":")
            if len(fields) > 5 and fields[2] == str(uid):
                return fields[0], fields[5]
    for path, line in (
        ("/etc/passwd", f"axonlab:x:{uid}:{uid}::/home/axonlab:/bin/sh\n"),
        ("/etc/group", f"axonlab:x:{uid}:\n"),
    ):
        with open(path, "a") as file:
            file.write(line)
    return "axonlab", "/home/axonlab"


def raise_loopback() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        # SIOCSIFFLAGS, IFF_UP
        fcntl.ioctl(any_socket, 0x8914, struct.pack("16sh22x", b"lo", 1))


# -- processes -----------------------------------------------------------------------------


def lead(settings: dict[str, Any], groups: list[tuple[Mounted, str]]) -> None:
    """Become the lab's pid 1. Comes back only by an exception."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    make_root(settings["visible"], groups)
    with step("write the lab's configuration"):
        uid = settings["uid"]
        furnish(uid, *add_user(uid))
        raise_loopback()
    for number in DROPPED_CAPS.values():
        libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    program = "/lib/systemd/systemd"
    options = ["--system", "--unit=axonlab.target", "--log-target=null", "--show-status=no"]
    with step(f"start {program}"):
        os.execve(program, [program, *options], {
            "container": "axonlab", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8",
        })


def divide(settings: dict[str, Any], groups: list[tuple[Mounted, str]], report: int) -> None:
    """Enter the groups and new namespaces, fork the leader and stay for as long as it lives."""
    libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for _, path in groups:
        with step(f"enter {path}"), open(f"{path}/cgroup.procs", "w") as procs:
            procs.write("0")
    with step("unshare the mount, pid, uts, ipc, cgroup and net namespaces"):
        check(libc.unshare(NEW_NS | NEW_PID | NEW_UTS | NEW_IPC | NEW_CGROUP | NEW_NET))
    leader = os.fork()
    if leader == 0:
        attempt(lambda: lead(settings, groups), report)
        os._exit(1)
    os.write(report, json.dumps({"leader": leader}).encode() + b"\n")
    os.close(report)
    os.waitpid(leader, 0)


def attempt(action: Callable[[], None], report: int) -> None:
    try:
        action()
    except (Failed, OSError) as error:
        os.write(report, json.dumps({"error": str(error)}).encode() + b"\n")


def start(
    settings: dict[str, Any], groups: list[tuple[Mounted, str]]
) -> tuple[int, dict[str, Any]]:
    """Fork the dividing process; its pid, and what it reported before the leader's exec."""
    read, report = os.pipe()
    divider = os.fork()
    if divider == 0:
        os.close(read)
        attempt(lambda: divide(settings, groups, report), report)
        os._exit(0)
    os.close(report)
    told: dict[str, Any] = {}
    with open(read) as lines:  # ends at the leader's exec, which closes the pipe
        for line in lines:
            told.update(json.loads(line))
    return divider, told


def hold(parent: int, divider: int) -> None:
    """Wait until standard input closes, the parent dies or the lab ends by itself."""
    poll = select.poll()
    for descriptor in (0, parent, os.pidfd_open(divider)):
        poll.register(descriptor, select.POLLIN | select.POLLHUP)
    poll.poll()


def end(told: dict[str, Any], divider: int, groups: list[tuple[Mounted, str]]) -> None:
    """Kill the lab's pid 1, and so every process in the lab; remove the groups."""
    if "leader" in told:
        with contextlib.suppress(ProcessLookupError):
            os.kill(told["leader"], signal.SIGKILL)
    os.waitpid(divider, 0)
    deadline = time.monotonic() + END_S
    for _, path in groups:
        remove_group(path, deadline)


def main() -> int:
    settings = json.loads(sys.argv[1])
    # Ends by its input alone, never by a Ctrl-C meant for the test run.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = os.pidfd_open(settings["parent"])
    groups = make_groups()
    divider, told = start(settings, groups)
    told["groups"] = [path for _, path in groups]
    print(json.dumps(told), flush=True)
    if "error" not in told:
        hold(parent, divider)
    end(told, divider, groups)
    return 1 if "error" in told else 0


if __name__ == "__main__":
    sys.exit(main())
