"""A lane of the exec zygote: a guard, and the process that becomes the next confined program.

Both are forked ahead of need. The guard is a Landlock domain of its own, from which no signal
leaves (guard.py). Its child reads one order from the caller's socket, gives up what the policy
takes, and becomes the program. The guard only looks whether the caller is still there: at the
end, or when the caller shuts its side, it ends everything below it, reports, and has another
child ready for the next order. Standard library only.
"""

from __future__ import annotations

import base64
import contextlib
import fcntl
import os
import select
import signal
import socket
from typing import Any, NoReturn

from axonkernel.box import guard, landlock
from axonkernel.box.capabilities import drop_own
from axonkernel.box.channel import Channel, ChannelClosed, pair
from axonkernel.box.confine import take_filter
from axonkernel.box.linux import child_subreaper, default_signals, die_with_parent

__all__ = ["IDLE_S", "close_all_but", "serve"]

#: Above all that a program is given: standard streams, and its channel as child.CHANNEL.
_APART = 16
_MOST_FAULT_BYTES = 4096
#: Seconds without an order after which a lane goes. Nobody sends one just then.
IDLE_S = 15.0
#: Milliseconds after which orphans that ended are looked for.
_LOOK_MS = 1000
_POLLRDHUP = 0x2000
_NO_FILTER = base64.b64encode(bytes(512)).decode()
#: What a child tells its guard before it becomes the program: whether what it leaves may stay.
_STAYS, _GOES = b"s", b"g"


def serve(sock: socket.socket) -> NoReturn:
    """Be the guard of a lane whose caller has the other end of ``sock``. Never returns.

    The caller sends orders, one after the other: ``argv``, ``file``, ``env``, ``stays``, and
    what is given up, ``run_as`` and ``filter``, with descriptors: standard input, output and
    error, the working directory, the Landlock rules, and then the program's own channel if it
    has one. It gets ``{"pid": N}`` when a child is ready, and how its program ended.
    """
    zygote = os.getppid()
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child_subreaper()
    lane = _Lane(sock, closed=guard.enclose(zygote))
    with contextlib.suppress(ChannelClosed):
        while lane.run_one():
            pass
    os._exit(0)


def close_all_but(*kept: int) -> None:
    """Close every descriptor from 3 up except ``kept``; no object may close one later."""
    below = 3
    for fd in (*sorted(kept), os.sysconf("SC_OPEN_MAX")):
        os.closerange(below, fd)
        below = fd + 1


class _Lane:
    def __init__(self, sock: socket.socket, *, closed: bool) -> None:
        self.sock = sock
        self.caller = Channel(sock)
        self.closed = closed
        self.worker = 0
        self.status: int | None = None  # of the worker, when it has ended
        self.cpu_s = 0.0

    def run_one(self) -> bool:
        """Run one program; whether there can be another. Raises ChannelClosed."""
        told, tell = os.pipe()
        self.status, self.cpu_s = None, 0.0
        self.worker = os.fork()
        if self.worker == 0:
            close_all_but(self.sock.fileno(), tell)
            _become(self.sock, _apart(tell), os.getppid())
        os.close(tell)
        try:
            self.caller.send({"pid": self.worker})
            killed = not self.watch()
            stays, fault = self.heard(told)
            if not killed and not stays and not fault:
                return False  # it has waited in vain
            return self.report(stays == _STAYS, fault, killed)
        finally:
            os.close(told)

    def watch(self) -> bool:
        """Wait until the worker has ended, or the caller wants it ended: False."""
        ended = os.pidfd_open(self.worker)
        poll = select.poll()
        poll.register(self.sock, _POLLRDHUP)
        poll.register(ended, select.POLLIN)
        try:
            while self.status is None:
                ready = dict(poll.poll(_LOOK_MS))
                self.reap()
                if self.sock.fileno() in ready and self.status is None:
                    self.end_all()
                    return False
        finally:
            os.close(ended)
        return True

    def heard(self, told: int) -> tuple[bytes, str]:
        """What the ended worker told: whether what it leaves stays, and why it did not run."""
        data = os.read(told, _MOST_FAULT_BYTES)
        return data[:1], data[1:].decode("utf-8", "replace")

    def report(self, stays: bool, fault: str, killed: bool) -> bool:
        """End what is not to stay, and tell the caller; whether this lane can go on."""
        left = self.reap() and not killed
        if not stays:
            self.end_all()
        code = 0 if self.status is None else os.waitstatus_to_exitcode(self.status)
        ending = {"code": code, "left": left, "killed": killed, "cpu_s": self.cpu_s}
        self.caller.send({**ending, "fault": fault})
        return not (killed or (stays and left))

    def reap(self) -> bool:
        """Reap what has ended; whether anything is left."""
        try:
            while self._wait(os.WNOHANG):
                pass
        except ChildProcessError:
            return False
        return True

    def end_all(self) -> None:
        """End everything below this process."""
        with contextlib.suppress(ChildProcessError):
            while True:
                guard.kill_below(closed=self.closed)
                self._wait(0)

    def _wait(self, options: int) -> bool:
        """Reap one that has ended; False when none has."""
        pid, status, usage = os.wait4(-1, options)
        self.cpu_s += usage.ru_utime + usage.ru_stime
        if pid == self.worker:
            self.status = status
        return pid != 0


# -- the program ------------------------------------------------------------------------


def _rehearse() -> None:
    """Go once the way of an order: a forked process copies each page that it touches first."""
    there, here = pair()
    order = {"argv": ["", ""], "file": "", "env": {"": ""}, "stays": False, "run_as": None}
    there.send({**order, "filter": _NO_FILTER}, (0, 1, 2, there.fileno()))
    told, given = here.receive()
    base64.b64decode(told["filter"])
    for fd in (*map(_apart, given), *given):
        os.close(fd)
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    for end in (there, here):
        end.close()


def _become(sock: socket.socket, tell: int, guarded_by: int) -> NoReturn:
    _rehearse()
    try:
        poll = select.poll()
        poll.register(sock, select.POLLIN)
        if not poll.poll(IDLE_S * 1000):
            os._exit(0)
        order, given = Channel(sock).receive()
    except ChannelClosed:
        os._exit(0)
    os.write(tell, _STAYS if order["stays"] else _GOES)
    try:
        _give_up(order, given)
        _require(guarded_by)
    except OSError as error:
        os.write(tell, f"cannot be confined: {error}".encode("utf-8", "replace"))
        os._exit(125)
    _execute(order)


def _give_up(order: dict[str, Any], given: tuple[int, ...]) -> None:
    stdin, stdout, stderr, cwd, rules, *channel = given
    if order["run_as"] is not None:
        uid, gid = order["run_as"]
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    drop_own()
    os.fchdir(cwd)
    landlock.restrict(rules)
    for place, fd in enumerate(map(_apart, (stdin, stdout, stderr, *channel))):
        os.dup2(fd, place)
    default_signals()
    if order["filter"]:
        take_filter(base64.b64decode(order["filter"]))


def _require(guarded_by: int) -> None:
    """Nothing runs without its guard. Not before a change of user, which would undo it."""
    die_with_parent(signal.SIGKILL)
    if os.getppid() != guarded_by:
        os._exit(125)


def _apart(fd: int) -> int:
    """A duplicate out of the way of what a program is given; closed when it is executed."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _APART)


def _execute(order: dict[str, Any]) -> NoReturn:
    name = order["argv"][0]
    try:
        os.execve(order["file"], order["argv"], order["env"])
    except FileNotFoundError as error:
        code, text = 127, error.strerror
    except OSError as error:
        code, text = 126, error.strerror
    os.write(2, f"axonkernel: {name}: {text}\n".encode("utf-8", "surrogateescape"))
    os._exit(code)
