"""What stands of one box, and how it is taken down. Standard library only."""

from __future__ import annotations

import contextlib
import os
import signal

from axonkernel.box import gate
from axonkernel.box.linux import child_subreaper, die_with_parent
from axonkernel.box.model import Reason
from axonkernel.box.resolver.reports import Refusals
from axonkernel.box.spawn import Spawned
from axonkernel.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:  # a box is started before these are imported (prelude.py)
    from axonkernel.box.cgroup import Group
    from axonkernel.box.keeper import Keeper
    from axonkernel.box.lending import Lender
    from axonkernel.box.link import Link
    from axonkernel.box.resolver.starting import Resolver

__all__ = ["Standing", "park"]


class Standing:
    """The processes and things of one box, as far as they are there.

    Attributes:
        bwrap: bwrap's outer process, a child of this one.
        init: the box's pid 1, as seen from outside; 0 before it is there.
        agent: the agent's program; 0 before it is held at its exec.
        parked: what keeps the scope until its counters are read; 0 without a scope.
        group: the control group, where limits need one.
        keeper: what holds masks and protections; None when there are none.
        lender: what hands out the private folders; None when nobody may ask for them.
        folder: where that group is, when we and not systemd must take it away.
        resolver: what answers names in it; None where the host's network is there.
        refusals: what it was refused on the network so far.
        reason: why the box ended, by what we did.
        reaped: wait statuses of children that were waited for in passing.
    """

    def __init__(self) -> None:
        self.bwrap = Spawned(0, -1, -1)
        self._bwrap_fd = -1
        self.init = 0
        self.agent = 0
        self.parked = 0
        self.link: Link | None = None
        self.keeper: Keeper | None = None
        self.lender: Lender | None = None
        self.group: Group | None = None
        self.folder = ""
        self.resolver: Resolver | None = None
        self.refusals = Refusals()
        self.reason: Reason = "exit"
        self.reaped: dict[int, int] = {}
        self._init_fd = -1
        self._terminal: tuple[int, list[Any]] | None = None
        self._agent_fd = -1

    def spawned(self, bwrap: Spawned) -> None:
        """bwrap was started."""
        child_subreaper()  # the box's pid 1 becomes ours when bwrap ends before it
        self.bwrap, self._bwrap_fd = bwrap, os.pidfd_open(bwrap.pid)

    @property
    def ended(self) -> int:
        """A descriptor that is readable when bwrap, and so the program, has ended."""
        return self._bwrap_fd

    def made(self, init: int) -> None:
        """The box has its pid 1."""
        self.init, self._init_fd = init, os.pidfd_open(init)

    def held(self, agent: int) -> None:
        """The agent's program is there."""
        self.agent = agent
        with contextlib.suppress(ProcessLookupError):  # it has ended already
            self._agent_fd = os.pidfd_open(agent)

    def signal(self, number: int) -> bool:
        """Send a signal to the agent's program; False when it has ended."""
        return self._agent_fd >= 0 and _sent(self._agent_fd, number)

    def kill(self, reason: Reason) -> None:
        """End every process of the box, by its pid 1."""
        if self.reason == "exit":
            self.reason = reason
        if self._init_fd >= 0:
            _sent(self._init_fd, signal.SIGKILL)
        elif self._bwrap_fd >= 0:
            _sent(self._bwrap_fd, signal.SIGKILL)

    def take_down(self) -> None:
        """End every process of the box; returns when none is left.

        bwrap may have ended without its box: killed by somebody else, before the box's pid 1
        was tied to it.
        """
        self.kill("exit")
        for pidfd in (self._bwrap_fd, self._init_fd):
            if pidfd >= 0:
                gate.reap_until_gone(pidfd, self.reaped)
        if self.bwrap.pid and self.bwrap.pid not in self.reaped:
            _, self.reaped[self.bwrap.pid] = os.waitpid(self.bwrap.pid, 0)

    def cpu_s(self) -> float:
        """Processor time of the box that was taken down, without a group that counts it."""
        from resource import RUSAGE_CHILDREN, getrusage

        # Unless bwrap has waited for it, and counts it.
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.init, 0)
        usage = getrusage(RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    def name_of(self, address: str) -> str:
        """The name that an address was the answer to; "" for none."""
        return "" if self.resolver is None else self.resolver.name_of(address)

    def keep_terminal(self, fd: int) -> None:
        """Note how the caller's terminal is set, before the supervisor changes that."""
        import termios

        self._terminal = fd, termios.tcgetattr(fd)

    def restore_terminal(self) -> None:
        """Set the caller's terminal as it was: the supervisor was killed before it could."""
        if self._terminal is None:
            return
        import termios

        with contextlib.suppress(termios.error):  # it is gone as well
            termios.tcsetattr(self._terminal[0], termios.TCSANOW, self._terminal[1])

    def unpark(self) -> None:
        """Let go of the scope, or take the group away."""
        if self.parked:
            os.kill(self.parked, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):  # reaped in passing
                os.waitpid(self.parked, 0)
            self.parked = 0
        if self.folder:
            from axonkernel.box import direct

            direct.remove(self.folder)


def _sent(pidfd: int, number: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        signal.pidfd_send_signal(pidfd, number)
        return True
    return False


def park() -> int:
    """A process that stays last in the scope, so that its counters can still be read."""
    warden = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    die_with_parent(signal.SIGKILL)
    if os.getppid() != warden:
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # systemd's first word at RuntimeMax
    while True:
        signal.pause()
