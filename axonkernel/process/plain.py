"""A program beside this process, in a session of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress

from axonkernel.policy.environ import QUIET, environment
from axonkernel.process.result import Usage
from axonkernel.process.start import Ending, Place, Start
from axonkernel.process.tree import kill_tree, session_members

__all__ = ["Plain", "environment_of", "start_plain"]

_OWN = ("HOME", "USER", "LOGNAME")


def start_plain(start: Start, place: Place, stdin: int, stdout: int, stderr: int) -> Plain:
    """Start ``start`` without a box. Raises OSError when it cannot be executed."""
    env, dropped = environment_of(start, place)
    assert start.program.file is not None
    words = [start.program.name, *start.argv[1:]]
    if start.channel >= 0:
        words[-1] = str(start.channel)  # no descriptor can be given another number here
    child = subprocess.Popen(
        words,
        executable=start.program.file,
        cwd=start.cwd,
        env=env,
        stdin=stdin,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,  # no controlling terminal, and one group to kill
        pass_fds=() if start.channel < 0 else (start.channel,),
    )
    return Plain(child, start.stays, dropped, place.around)


def environment_of(start: Start, place: Place) -> tuple[dict[str, str], tuple[str, ...]]:
    """What a program without a box gets, and the names that were kept out."""
    source = place.environ
    fixed = {name: source[name] for name in (*_OWN, "PATH") if name in source}
    if place.path:
        fixed["PATH"] = os.pathsep.join(place.path)
    env, dropped = environment(place.policy.env, source, {**QUIET, **fixed})
    return start.wanted({**env, **start.env}), dropped


class Plain:
    """A program without a box. See :class:`axonkernel.process.start.Running`."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        stays: bool,
        env_dropped: tuple[str, ...],
        around: tuple[str, ...],
    ) -> None:
        self.pid = child.pid
        self.env_dropped = env_dropped
        self.held_by = around
        self.walls: tuple[str, ...] = ("box",) if around else ()
        self._child = child
        self._stays = stays
        self._killed = False
        self._since_s = time.monotonic()
        self._descriptor = _descriptor(child.pid)

    def fileno(self) -> int:
        """Readable when it has ended; -1 where processes have no descriptors."""
        return self._descriptor

    def ended(self) -> bool:
        """Whether the program has ended. It stays a zombie, see :meth:`wait`."""
        with suppress(ChildProcessError):
            found = os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG)
            return found is not None
        return True

    def wait(self) -> None:
        """Block until the program has ended. It stays a zombie: its pid, which is also its
        session's, cannot go to another process before the session has been killed."""
        if hasattr(os, "waitid"):
            with suppress(ChildProcessError):
                os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOWAIT)
        else:  # macOS before Python 3.13
            self._child.wait()

    def end(self) -> Ending:
        """End what the program left behind, unless it may stay, and reap it."""
        left = False
        if self._descriptor >= 0:
            os.close(self._descriptor)
        if not self._stays:
            left = bool(session_members(self.pid) - {self.pid})
            kill_tree(self.pid)
        code, cpu_s = self._reap()
        used = Usage("killed" if self._killed else "exit", time.monotonic() - self._since_s, cpu_s)
        return Ending(code if code >= 0 else 128 - code, background=left, used=used)

    def _reap(self) -> tuple[int, float | None]:
        """Its exit code, and the processor time of it and what it waited for."""
        if self._child.returncode is None and hasattr(os, "wait4"):
            with suppress(ChildProcessError):
                _, status, usage = os.wait4(self.pid, 0)
                self._child.returncode = os.waitstatus_to_exitcode(status)
                return self._child.returncode, usage.ru_utime + usage.ru_stime
        return self._child.wait(), None

    def kill(self) -> None:
        """End the program and everything that is still in its session or below it."""
        if self._child.returncode is None:
            self._killed = True
            kill_tree(self.pid)
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)


def _descriptor(pid: int) -> int:
    """A descriptor of a process; -1 where the system has none."""
    try:
        return os.pidfd_open(pid)
    except (AttributeError, OSError):
        return -1
