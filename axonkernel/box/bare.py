"""A command without a box: what best-effort comes to on a machine that cannot make one.

It is confined as far as a process can confine itself (confine.py), or where the kernel has no
means for that not at all; the posture says which. Standard library only.
"""

from __future__ import annotations

import os
import signal
import time

from axonkernel.box import confine, guard
from axonkernel.box.lookup import NOT_EXECUTABLE, NOT_FOUND
from axonkernel.box.model import BoxPlan, BoxResult, Command

__all__ = ["BareProcess", "make_scratch", "remove_scratch", "start"]

#: A terminal sends these to the command as well, which is in our own process group.
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH, signal.SIGCONT, signal.SIGTSTP)


class BareProcess:
    """A started command; see :class:`axonkernel.box.launch.BoxProcess`."""

    def __init__(self, pid: int, refused: BoxResult | None, scratch: str = "") -> None:
        self.pid = pid
        self._scratch = scratch
        self._refused = refused
        self._started_s = time.monotonic()

    def signal(self, number: int, grace_s: float | None = None) -> None:
        """Pass a signal on. Nothing is held here, so no grace ends."""
        if self.pid and number not in _FROM_TERMINAL:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the command, and where it is confined all that it started."""
        if self.pid:
            os.kill(self.pid, guard.END if self._scratch else signal.SIGKILL)

    def wait(self) -> BoxResult:
        """How the command ended."""
        if self._refused is not None:
            return self._refused
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        remove_scratch(self._scratch)
        code = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - self._started_s
        return BoxResult(code if code >= 0 else 128 - code, wall_s=wall_s)


def start(plan: BoxPlan, command: Command) -> BareProcess:
    """Start ``command`` where this process stands, confined if the plan says to what."""
    if plan.mounts:
        scratch = make_scratch(plan)
        argv, fd = confine.command_line(plan, command, scratch, stays=False, dies=True)
        os.set_inheritable(fd, True)
        try:
            pid = os.posix_spawn(argv[0], argv, {}, setsigdef=[signal.SIGPIPE])
        finally:
            os.close(fd)
        return BareProcess(pid, None, scratch)
    try:
        pid = os.posix_spawnp(
            command.argv[0], command.argv, dict(plan.env), setsigdef=[signal.SIGPIPE]
        )
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        code, stage = (127, NOT_FOUND) if missing else (126, NOT_EXECUTABLE)
        message = f"{command.argv[0]}: {error.strerror}"
        return BareProcess(0, BoxResult(code, "launch", stage, message))
    return BareProcess(pid, None)


def make_scratch(plan: BoxPlan) -> str:
    """A private folder for a confined command, in place of /tmp and HOME."""
    import tempfile

    scratch = tempfile.mkdtemp(prefix="axonkernel-")
    if plan.run_as is not None:
        os.chown(scratch, *plan.run_as)
    return scratch


def remove_scratch(scratch: str) -> None:
    """Take the folder away with all that was put there; "" is none."""
    if scratch:
        import shutil

        shutil.rmtree(scratch, ignore_errors=True)
