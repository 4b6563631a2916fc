"""mount(2) and friends for Python 3.11, standard library only."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

NEW_NS, NEW_CGROUP, NEW_UTS = 0x00020000, 0x02000000, 0x04000000
NEW_IPC, NEW_PID, NEW_NET = 0x08000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MNT_DETACH = 2
PR_SET_PDEATHSIG, PR_CAPBSET_DROP = 1, 24
SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}.get(os.uname().machine, 155)

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


def pivot(folder: str) -> None:
    """Make a mount the root of this mount namespace and let go of the old one."""
    os.chdir(folder)
    check(libc.syscall(SYS_PIVOT_ROOT, b".", b"."))
    check(libc.umount2(b".", MNT_DETACH))
    os.chdir("/")


def unshare(flags: int) -> None:
    """Enter new namespaces."""
    check(libc.unshare(flags))


def die_with_parent() -> None:
    """Get SIGKILL when the process that forked this one is gone."""
    libc.prctl(PR_SET_PDEATHSIG, 9, 0, 0, 0)


def drop_capability(number: int) -> None:
    """Take a capability from this process and all it will exec."""
    libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)
