"""What a worker gives up before the first line of a handler; standard library only.

In this order: other networks, its environment, capabilities, files, and at last the system
calls that could undo or go around any of it.
"""

from __future__ import annotations

import ctypes
import os
import resource
from typing import NamedTuple

from axonkernel.box import landlock
from axonkernel.box.capabilities import drop_all
from axonkernel.box.confine import take_filter
from axonkernel.box.linux import CLONE_NEWNET, CLONE_NEWNS, CLONE_NEWUSER, no_new_privs

__all__ = ["Spaces", "WorkerWalls", "enter_spaces", "give_up", "make_spaces", "prepare"]

_CLONE_NEWIPC, _CLONE_NEWPID = 0x08000000, 0x20000000
_MS_PRIVATE_ALL = 0x40000 | 0x4000
_MS_NOSUID_NODEV_NOEXEC = 2 | 4 | 8
_libc = ctypes.CDLL(None, use_errno=True)


class Spaces(NamedTuple):
    """Namespaces of a worker's own: user (where that is needed), mount, pid and ipc.

    Arguments:
        made: whether it has them.
        proc: whether /proc shows this pid namespace alone.
        net: whether it has an empty network namespace as well.
    """

    made: bool = False
    proc: bool = False
    net: bool = False


class WorkerWalls(NamedTuple):
    """What one request leaves to its worker.

    Arguments:
        rules: of Landlock.
        filter: of seccomp, raw BPF, beside the one that was taken ahead of need.
        spaces: it has namespaces of its own, or does not begin.
        empty_net: a network namespace without a link, if it has namespaces.
        own_proc: /proc shows others as well unless namespaces were made: only the worker's
            own part of it stays in reach.
        env: the whole environment; None leaves it.
        limits: (RLIMIT number, most) pairs.
        cwd: working directory; one that is not there is left out.
    """

    rules: landlock.Rules = landlock.Rules()
    filter: bytes = b""
    spaces: bool = False
    empty_net: bool = False
    own_proc: bool = False
    env: tuple[tuple[str, str], ...] | None = None
    limits: tuple[tuple[int, int], ...] = ()
    cwd: str = "/"


#: Of /proc, beside the worker's own part; they say nothing about other processes.
_PROC = (
    "cpuinfo", "filesystems", "loadavg", "meminfo", "stat", "uptime", "version", "sys/fs",
    "sys/kernel/cap_last_cap", "sys/kernel/osrelease", "sys/vm/overcommit_memory",
)  # fmt: skip


def make_spaces() -> bool:
    """Leave this process's mount and ipc namespace; the next child is pid 1 of a new one.

    Without privilege by a user namespace, in which ids stay what they are. False where the
    machine allows none; nothing has changed then. The process has one thread.
    """
    flags = CLONE_NEWNS | _CLONE_NEWIPC | _CLONE_NEWPID
    if _unshare(flags):
        return _privately()
    uid, gid = os.getuid(), os.getgid()  # not to be had afterwards
    if not _unshare(flags | CLONE_NEWUSER):
        return False
    maps = (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1"))
    for name, text in maps:
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)
    return _privately()


def enter_spaces(*, empty_net: bool) -> Spaces:
    """Be pid 1 of the namespaces that :func:`make_spaces` made, with a /proc of their own
    where that is allowed. Raises OSError where a network namespace is wanted and refused.
    """
    if empty_net and not _unshare(CLONE_NEWNET):
        raise OSError(ctypes.get_errno(), "no network namespace")
    proc = _mounted(b"proc", b"/proc", b"proc", _MS_NOSUID_NODEV_NOEXEC)
    return Spaces(True, proc, empty_net)


def prepare(filter: bytes) -> None:
    """Give up ahead of need what no request leaves.

    Arguments:
        filter: of seccomp, raw BPF; b"" where the box around has one.
    """
    no_new_privs()
    drop_all()
    if filter:
        take_filter(filter)


def give_up(walls: WorkerWalls, spaces: Spaces) -> None:
    """Take all of it, after :func:`prepare`. Raises OSError; then this process must not go on."""
    if walls.spaces and (not spaces.made or spaces.net != walls.empty_net):
        raise OSError("it has other namespaces than it should")
    if walls.env is not None:
        os.environ.clear()
        os.environ.update(walls.env)
    for number, most in walls.limits:
        resource.setrlimit(number, (most, most))
    if os.path.isdir(walls.cwd):
        os.chdir(walls.cwd)
    rules = landlock.rules(_with_proc(walls, spaces))
    landlock.restrict(rules)
    os.close(rules)
    take_filter(walls.filter)


def _with_proc(walls: WorkerWalls, spaces: Spaces) -> landlock.Rules:
    if not walls.rules.files:
        return walls.rules
    if spaces.proc or not walls.own_proc:
        paths = ["/proc"]
    else:
        paths = [f"/proc/{os.readlink('/proc/self')}", *(f"/proc/{name}" for name in _PROC)]
    grants = (*walls.rules.grants, *((path, "r") for path in paths))
    return walls.rules._replace(grants=grants)


def _unshare(flags: int) -> bool:
    return bool(_libc.unshare(ctypes.c_int(flags)) == 0)


def _privately() -> bool:
    return _mounted(b"none", b"/", None, _MS_PRIVATE_ALL)


def _mounted(source: bytes, target: bytes, kind: bytes | None, flags: int) -> bool:
    return bool(_libc.mount(source, target, kind, ctypes.c_ulong(flags), None) == 0)
