"""Run something to its end, and end everything that it started: where no pid namespace does.

The guard is a Landlock domain of its own, from which no signal leaves. So ``kill(-1)`` reaches
what is below it, however it detached itself, and nobody else; fork and that call exclude each
other in the kernel, so nothing slips through. Where the kernel has no such scope (before ABI
6) descendants are killed until none is left. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable
from types import FrameType
from typing import NoReturn

from axonkernel.box import landlock
from axonkernel.box.linux import child_subreaper, die_with_parent

__all__ = ["END", "enclose", "kill_below", "run"]

#: Sent to a guard, it ends all at once.
END = signal.SIGRTMIN
#: A terminal sends these to the guarded as well.
_IGNORED = (signal.SIGINT, signal.SIGQUIT, signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def run(work: Callable[[], NoReturn], *, stays: bool, dies_with_parent: bool) -> NoReturn:
    """Do ``work`` in a child, and exit with its code (128 + N for signal N).

    Arguments:
        stays: what it leaves running may go on.
        dies_with_parent: all ends when the thread that started this process does.
    """
    supervisor = os.getppid()
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))
    child_subreaper()
    closed = enclose(supervisor)
    signal.pthread_sigmask(signal.SIG_BLOCK, (*_PASSED_ON, END))
    worker = os.fork()
    if worker == 0:
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        work()
    _pass_on(worker, lambda: _end_all(closed))
    if dies_with_parent:
        die_with_parent(END)
        if os.getppid() != supervisor:
            os.kill(os.getpid(), END)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    code = os.waitstatus_to_exitcode(_wait(worker))
    if not stays:
        _end_all(closed)
    os._exit(code if code >= 0 else 128 - code)


def enclose(outside: int) -> bool:
    """Let no signal of this process and what it starts reach ``outside``; whether that holds.

    Only where it does may :func:`kill_below` be ``closed``.
    """
    return landlock.close_signals() and _is_out_of_reach(outside)


def kill_below(*, closed: bool) -> None:
    """Kill everything below this process once; what is killed is still to be waited for.

    Arguments:
        closed: no signal leaves (:func:`enclose`), so one call reaches all, and only them.
    """
    if closed:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(-1, signal.SIGKILL)
        return
    for pid in _children():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _is_out_of_reach(pid: int) -> bool:
    """Whether signals to a process outside are refused: the proof before ``kill(-1)``."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return pid > 0
    except OSError:
        return False
    return False


def _pass_on(worker: int, end_all: Callable[[], None]) -> None:
    def forward(number: int, _: FrameType | None) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, number)

    def end(_: int, __: FrameType | None) -> NoReturn:
        end_all()
        os._exit(128 + signal.SIGKILL)

    for number in _IGNORED:
        signal.signal(number, signal.SIG_IGN)
    for number in _PASSED_ON:
        signal.signal(number, forward)
    signal.signal(END, end)


def _wait(worker: int) -> int:
    """The wait status of the worker; orphans that end meanwhile are reaped."""
    while True:
        pid, status = os.wait()
        if pid == worker:
            return status


def _end_all(closed: bool) -> None:
    while True:
        kill_below(closed=closed)
        try:
            os.wait()
        except ChildProcessError:
            return


def _children() -> list[int]:
    """Children of this process; what they leave behind become its own in turn."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return [int(pid) for pid in file.read().split()]
