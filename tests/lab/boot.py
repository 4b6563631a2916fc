"""Holds a throw-away systemd: the process between a test run and the lab it made.

Runs as a program of its own, standard library only, started by ``lab.systemd`` with one
argument, ``{"parent": PID, "visible": [...], "uid": UID}``. It makes control groups for the
lab, forks a process that unshares every namespace and execs systemd over an overlay of
``/``, prints one JSON line (``leader`` and ``groups``, or ``error``) and waits. When standard
input closes, or the parent dies in whatever way, it kills the lab and removes its groups. So
a killed test run leaves nothing behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from typing import Any

from lab.filetree import make_root
from lab.furnish import add_user, furnish, raise_loopback
from lab.groups import make_groups, remove_group
from lab.syscalls import (
    NEW_CGROUP,
    NEW_IPC,
    NEW_NET,
    NEW_NS,
    NEW_PID,
    NEW_UTS,
    Failed,
    Mounted,
    die_with_parent,
    drop_capability,
    step,
    unshare,
)

#: How long the lab's groups may need to get empty.
END_S = 10.0
#: Reach the machine, not the lab: modules, raw devices, the clock, the kernel log.
DROPPED_CAPS = {"sys_module": 16, "sys_rawio": 17, "sys_time": 25, "syslog": 34}


def lead(settings: dict[str, Any], groups: list[tuple[Mounted, str]]) -> None:
    """Become the lab's pid 1. Comes back only by an exception."""
    die_with_parent()
    make_root(settings["visible"], groups)
    with step("write the lab's configuration"):
        uid = settings["uid"]
        furnish(uid, *add_user(uid))
        raise_loopback()
    for number in DROPPED_CAPS.values():
        drop_capability(number)
    null = os.open("/dev/null", os.O_RDWR)
    for number in range(3):
        os.dup2(null, number)
    program = "/lib/systemd/systemd"
    options = ["--system", "--unit=axonlab.target", "--log-target=null", "--show-status=no"]
    with step(f"start {program}"):
        os.execve(
            program,
            [program, *options],
            {
                "container": "axonlab",
                "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
                "LANG": "C.UTF-8",
            },
        )


def divide(settings: dict[str, Any], groups: list[tuple[Mounted, str]], report: int) -> None:
    """Enter the groups and new namespaces, fork the leader and stay for as long as it lives."""
    die_with_parent()
    for _, path in groups:
        with step(f"enter {path}"), open(f"{path}/cgroup.procs", "w") as procs:
            procs.write("0")
    with step("unshare the mount, pid, uts, ipc, cgroup and net namespaces"):
        unshare(NEW_NS | NEW_PID | NEW_UTS | NEW_IPC | NEW_CGROUP | NEW_NET)
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
