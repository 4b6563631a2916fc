"""The exec gate: the agent's program is checked at its first instruction, before it runs.

bwrap installs the seccomp filter just before exec, so the only moment at which every wall can
be seen from outside is the exec stop. Standard library only.

bwrap is traced from before its first instruction for a second reason: until it has been
released, nothing of its own ties the box's pid 1 to its parent. A tracer that dies does.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import time
from collections.abc import Callable

from axonkernel.box.linux import ptrace

__all__ = [
    "GateError",
    "await_exec",
    "await_init",
    "faults",
    "filters",
    "namespaces",
    "reap_until_gone",
    "release",
    "seize",
    "status_of",
]

_SEIZE, _INTERRUPT, _CONT, _DETACH, _SET_OPTIONS = 0x4206, 0x4207, 7, 17, 0x4200
_SETSIGMASK = 0x420B
#: Report forks, vforks, clones and execs; kill all that is traced when this process dies.
_OPTIONS = 0x2 | 0x4 | 0x8 | 0x10 | 0x100000
_EXECS = 0x10
_EVENT_EXEC, _EVENT_STOP = 4, 128
_WALL = 0x40000000
_SLEEPS_WITHIN_S = 1.0
_KILLED = "the box was killed while it was being made"


class GateError(Exception):
    """The program cannot be shown to be behind its walls."""


def seize(pid: int, *, execs: bool = True) -> None:
    """Trace ``pid`` and all it will fork, without stopping it.

    Arguments:
        execs: each exec is waited for as well. Without, what will be bwrap gets on by itself
            until it has a child, for whose execs :func:`await_init` asks.
    """
    try:
        ptrace(_SEIZE, pid, 0, _OPTIONS if execs else _OPTIONS & ~_EXECS)
    except OSError as error:
        raise GateError(f"ptrace refused: {error}") from error


def await_init(bwrap: int, reaped: dict[int, int]) -> int | None:
    """The pid of the box's pid 1: the first child of ``bwrap``, traced; bwrap is let go.

    Returns None when bwrap ended before it had a child. ``bwrap`` was seized by this thread.

    Arguments:
        reaped: as in :func:`await_exec`.
    """
    init = 0
    held = True
    while held or not init:
        pid, status = os.waitpid(-1, _WALL)
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            reaped[pid] = status
            if pid == bwrap:
                return init or None
            continue
        event = status >> 16
        if pid == bwrap and event not in (0, _EVENT_EXEC, _EVENT_STOP):
            held = False
            _detach(pid)
            continue
        if pid != bwrap and not init:
            init = pid
            with contextlib.suppress(ProcessLookupError):
                ptrace(_SET_OPTIONS, init, 0, _OPTIONS)  # it has not run yet
        _resume(pid, status, event)
    return init


def await_exec(init: int, reaped: dict[int, int], before_exec: Callable[[int], None]) -> int | None:
    """The pid of the first program executed below ``init``, stopped at its exec.

    Everything traced but that program is let go. Returns None when ``init`` ended before any
    program was executed. ``init`` was seized by this thread.

    Arguments:
        reaped: gets the wait status of each child of this process that ended meanwhile,
            since waiting for any tracee reaps those too.
        before_exec: called once with the pid of the first fork, stopped, with every mount in
            place; what it raises ends the wait.
    """
    traced, held = {init}, 0
    while not held or traced != {held}:
        pid, status = os.waitpid(-1, _WALL)
        event = status >> 16
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            reaped[pid] = status
            traced.discard(pid)
            if held and pid in (held, init):
                raise GateError(_KILLED)
            if pid == init:
                return None
        elif held and event == _EVENT_STOP:
            _detach(pid)
            traced.discard(pid)
        elif event == _EVENT_EXEC and not held:
            held = pid
            for other in traced - {held}:
                _interrupt(other)
        else:
            if pid not in traced:
                before_exec(pid)
                traced.add(pid)
            _resume(pid, status, event)
            if held:
                _interrupt(pid)
    return held


def _resume(pid: int, status: int, event: int) -> None:
    stopped_by = os.WSTOPSIG(status)
    passes_on = event == 0 and stopped_by != signal.SIGTRAP
    # Killed in the meantime: its exit is the next thing waitpid reports.
    with contextlib.suppress(ProcessLookupError):
        ptrace(_CONT, pid, 0, stopped_by if passes_on else 0)


def _interrupt(pid: int) -> None:
    """Stop the box's pid 1 once it waits for its children: before that it has not asked to
    die with its parent, and needs its tracer. One that is stopped already is left so."""
    deadline_s = time.monotonic() + _SLEEPS_WITHIN_S
    with contextlib.suppress(ProcessLookupError, FileNotFoundError):
        while (state := status_of(pid)["State"][0]) in "RD" and time.monotonic() < deadline_s:
            time.sleep(0.0001)
        if state != "t":
            ptrace(_INTERRUPT, pid)


def _detach(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        ptrace(_DETACH, pid)


def reap_until_gone(pidfd: int, reaped: dict[int, int]) -> None:
    """Reap children and tracees until the process behind ``pidfd`` has ended: a killed box
    waits for its tracer.

    Arguments:
        reaped: as in :func:`await_exec`.
    """
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    while not poll.poll(1):
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG | _WALL))[0]:
                if os.WIFEXITED(ended[1]) or os.WIFSIGNALED(ended[1]):
                    reaped[ended[0]] = ended[1]


def release(pid: int, *, unmask: bool = False) -> None:
    """Let the checked program run.

    Arguments:
        unmask: with no signal blocked, whatever it inherited.

    Raises GateError when it was killed where it was held.
    """
    none = ctypes.c_uint64(0)
    try:
        if unmask:
            ptrace(_SETSIGMASK, pid, ctypes.sizeof(none), ctypes.addressof(none))
        ptrace(_DETACH, pid)
    except ProcessLookupError:
        # The box cannot end before its tracer has taken note of the end.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, _WALL)
        raise GateError(_KILLED) from None


def namespaces() -> dict[str, str]:
    """The identity of each namespace of this process, to compare with the agent's."""
    return {name: os.readlink(f"/proc/self/ns/{name}") for name in ("user", "mnt", "pid", "net")}


def faults(pid: int, outside: dict[str, str], *, own_net: bool, filtered: bool) -> list[str]:
    """What is wrong with the stopped program; empty when every wall is there.

    Arguments:
        outside: namespaces() of the supervisor's side, taken before anything was entered.
        own_net: the plan has a network of its own.
        filtered: the plan has a seccomp filter.
    """
    found = [f"shares the {name} namespace with the host"
             for name, identity in outside.items()
             if (name != "net" or own_net)
             and os.readlink(f"/proc/{pid}/ns/{name}") == identity]  # fmt: skip
    status = status_of(pid)
    for field in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        if int(status[field], 16) != 0:
            found.append(f"{field} is {status[field]}")
    if status["NoNewPrivs"] != "1":
        found.append("no_new_privs is off")
    if filtered and filters(pid) <= filters(os.getpid()):
        found.append("no seccomp filter")
    return found


def filters(pid: int) -> int:
    """How many seccomp filters a process has; a container's around us is one already."""
    found = status_of(pid)
    return int(found.get("Seccomp_filters", found["Seccomp"] == "2"))


def status_of(pid: int) -> dict[str, str]:
    """The lines of a process's status, by name."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as lines:
        pairs = (line.partition(":") for line in lines)
        return {name: value.strip() for name, _, value in pairs}
