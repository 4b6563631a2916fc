"""The exec gate: the agent's program is checked at its first instruction, before it runs.

bwrap installs the seccomp filter just before exec, so the only moment at which every wall can
be seen from outside is the exec stop. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable

from axonkernel.box.linux import ptrace

__all__ = ["GateError", "await_exec", "faults", "namespaces", "reap_until", "release", "seize"]

_SEIZE, _INTERRUPT, _CONT, _DETACH = 0x4206, 0x4207, 7, 17
_OPTION_FORK, _OPTION_VFORK, _OPTION_CLONE, _OPTION_EXEC = 2, 4, 8, 16
_EVENT_EXEC = 4
_WALL = 0x40000000


class GateError(Exception):
    """The program cannot be shown to be behind its walls."""


def seize(pid: int) -> None:
    """Trace ``pid`` and all it will fork, without stopping it."""
    try:
        ptrace(_SEIZE, pid, 0, _OPTION_FORK | _OPTION_VFORK | _OPTION_CLONE | _OPTION_EXEC)
    except OSError as error:
        raise GateError(f"ptrace refused: {error}") from error


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
    traced = {init}
    while True:
        pid, status = os.waitpid(-1, _WALL)
        if os.WIFEXITED(status) or os.WIFSIGNALED(status):
            reaped[pid] = status
            traced.discard(pid)
            if pid == init:
                return None
            continue
        if pid not in traced:
            before_exec(pid)
            traced.add(pid)
        event = status >> 16
        if event == _EVENT_EXEC:
            _let_go(traced - {pid})
            return pid
        _resume(pid, status, event)


def _resume(pid: int, status: int, event: int) -> None:
    stopped_by = os.WSTOPSIG(status)
    passes_on = event == 0 and stopped_by != signal.SIGTRAP
    # Killed in the meantime: its exit is the next thing waitpid reports.
    with contextlib.suppress(ProcessLookupError):
        ptrace(_CONT, pid, 0, stopped_by if passes_on else 0)


def _let_go(pids: set[int]) -> None:
    for pid in pids:
        try:
            ptrace(_INTERRUPT, pid)
            os.waitpid(pid, _WALL)
            ptrace(_DETACH, pid)
        except (ProcessLookupError, ChildProcessError):
            continue  # it ended; nothing to let go


def reap_until(pid: int) -> None:
    """Reap children and tracees until ``pid`` has ended: a killed box waits for its tracer."""
    while os.waitpid(-1, _WALL)[0] != pid:
        pass


def release(pid: int) -> None:
    """Let the checked program run."""
    ptrace(_DETACH, pid)


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
    status = _status(pid)
    for field in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        if int(status[field], 16) != 0:
            found.append(f"{field} is {status[field]}")
    if status["NoNewPrivs"] != "1":
        found.append("no_new_privs is off")
    if filtered and status["Seccomp"] != "2":
        found.append("no seccomp filter")
    return found


def _status(pid: int) -> dict[str, str]:
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as lines:
        pairs = (line.partition(":") for line in lines)
        return {name: value.strip() for name, _, value in pairs}
