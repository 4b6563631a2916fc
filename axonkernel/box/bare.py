"""A command without a box: what best-effort comes to on a machine that cannot make one.

Nothing is held here, and the posture says so. Standard library only.
"""

from __future__ import annotations

import os
import signal
import time

from axonkernel.box.lookup import NOT_EXECUTABLE, NOT_FOUND
from axonkernel.box.model import BoxPlan, BoxResult, Command

__all__ = ["BareProcess", "start"]

#: A terminal sends these to the command as well, which is in our own process group.
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT, signal.SIGWINCH, signal.SIGCONT)


class BareProcess:
    """A started command; see :class:`axonkernel.box.launch.BoxProcess`."""

    def __init__(self, pid: int, refused: BoxResult | None) -> None:
        self.pid = pid
        self._refused = refused
        self._started_s = time.monotonic()

    def signal(self, number: int) -> None:
        """Pass a signal on."""
        if self.pid and number not in _FROM_TERMINAL:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """End the command."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> BoxResult:
        """How the command ended."""
        if self._refused is not None:
            return self._refused
        _, status = os.waitpid(self.pid, 0)
        self.pid = 0
        code = os.waitstatus_to_exitcode(status)
        wall_s = time.monotonic() - self._started_s
        return BoxResult(code if code >= 0 else 128 - code, wall_s=wall_s)


def start(plan: BoxPlan, command: Command) -> BareProcess:
    """Start ``command`` with the environment of ``plan``, where this process stands."""
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
