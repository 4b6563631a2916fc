"""A lane of the exec zygote: a guard, and the process that becomes the next confined program.

Both are forked ahead of need. The guard is a Landlock domain of its own, from which no signal
leaves (guard.py). Its child reads two messages from the caller's socket: what to give up, which
may come long before, and what to become. The guard only looks whether the caller is still
there: at the end, or when the caller shuts its side, it ends everything below it, reports, and
has another child ready for the next program. Standard library only.
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
from axonkernel.box.capabilities import drop_from_programs, drop_own
from axonkernel.box.channel import Channel, ChannelClosed, pair
from axonkernel.box.confine import take_filter
from axonkernel.box.linux import child_subreaper, default_signals, die_with_parent

__all__ = ["IDLE_S", "close_all_but", "serve"]

#: Above all that a program is given: standard streams, and its channel as child.CHANNEL.
_APART = 16
_MOST_FAULT_BYTES = 4096
#: Seconds after which a lane goes that knows what to give up and not what to become. Nobody
#: tells it just then.
IDLE_S = 15.0
#: Milliseconds after which orphans that ended are looked for.
_LOOK_MS = 1000
_POLLRDHUP = 0x2000
#: What a child tells its guard before it becomes the program: whether what it leaves may stay;
#: or that it will not.
_STAYS, _GOES, _FAULT = b"s", b"g", b"f"


def serve(sock: socket.socket, *, loose: bool) -> NoReturn:
    """Be the guard of a lane whose caller has the other end of ``sock``. Never returns.

    The caller sends two messages for each program. The first, what to give up: ``run_as`` and
    ``filter``, with the Landlock rules, or with none for a program that is to be ended well and
    no more. The second, what to become: ``argv``, ``file``, ``env`` and ``stays``, with the
    working directory, standard input, output and error, and the program's own channel if it has
    one. The caller gets ``{"pid": N}`` when a child is there, and how its program ended.

    Arguments:
        loose: programs keep every right of this process. Then nothing keeps them from ending
            their guard either, nor guarantees that all that they start is found.
    """
    zygote = os.getppid()
    os.setsid()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    child_subreaper()
    if not loose:
        drop_from_programs()
    lane = _Lane(sock, closed=not loose and guard.enclose(zygote), loose=loose)
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
    def __init__(self, sock: socket.socket, *, closed: bool, loose: bool) -> None:
        self.sock = sock
        self.caller = Channel(sock)
        self.closed = closed
        self.loose = loose
        self.worker = 0
        self.status: int | None = None  # of the worker, when it has ended
        self.cpu_s = 0.0

    def run_one(self) -> bool:
        """Run one program; whether there can be another. Raises ChannelClosed."""
        told, tell = os.pipe()
        self.status, self.cpu_s = None, 0.0
        own = os.getpid()
        self.worker = os.fork()
        if self.worker == 0:
            close_all_but(self.sock.fileno(), tell)
            _become(self.sock, _apart(tell), own, loose=self.loose)
        os.close(tell)
        try:
            self.caller.send({"pid": self.worker})
            killed = not self.watch()
            mark, fault = self.heard(told)
            if not killed and not mark:
                return False  # it has waited in vain
            return self.report(mark == _STAYS, fault, killed)
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
        """What the ended worker told last, and why it did not run."""
        data = os.read(told, _MOST_FAULT_BYTES)
        fault = data.partition(_FAULT)[2] if _FAULT in data[:2] else b""
        return data[:1], fault.decode("utf-8", "replace")

    def report(self, stays: bool, fault: str, killed: bool) -> bool:
        """End what is not to stay, and tell the caller; whether this lane can go on."""
        left = self.reap() and not killed
        if not stays:
            self.end_all()
        code = 0 if self.status is None else os.waitstatus_to_exitcode(self.status)
        ending = {"code": code, "left": left, "killed": killed, "cpu_s": self.cpu_s}
        self.caller.send({**ending, "fault": fault})
        # Who is to be confined anew has to be asked again what to give up.
        return not (killed or fault or (stays and left))

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


def _become(sock: socket.socket, tell: int, guarded_by: int, *, loose: bool) -> NoReturn:
    _require(guarded_by)
    os.setsid()  # what it sends to its own group is not for its guard
    _rehearse()
    caller = Channel(sock)
    try:
        walls = caller.receive()
        try:
            default_signals()
            if not loose:
                _give_up(*walls)
        except OSError as error:
            _refuse(tell, f"cannot be confined: {error}")
        order, given = _soon(sock, caller)
    except ChannelClosed:
        os._exit(0)
    os.write(tell, _STAYS if order["stays"] else _GOES)
    try:
        cwd, *streams = given
        os.fchdir(cwd)
        for place, fd in enumerate(map(_apart, streams)):
            os.dup2(fd, place)
        _require(guarded_by)
    except OSError as error:
        _refuse(tell, str(error))
    _execute(order)


def _rehearse() -> None:
    """Go once the way of an order: a forked process copies each page that it touches first."""
    there, here = pair()
    there.send({"argv": ["", ""], "file": "", "env": {"": ""}, "stays": False}, (0, 1, 2))
    _, given = here.receive()
    for fd in (*map(_apart, given), *given):
        os.close(fd)
    for end in (there, here):
        end.close()


def _soon(sock: socket.socket, caller: Channel) -> tuple[dict[str, Any], tuple[int, ...]]:
    """The next message. Raises ChannelClosed when there is none, or not for a long time."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    if not poll.poll(IDLE_S * 1000):
        raise ChannelClosed("idle")
    return caller.receive()


def _refuse(tell: int, fault: str) -> NoReturn:
    os.write(tell, _FAULT + fault.encode("utf-8", "replace"))
    os._exit(125)


def _give_up(walls: dict[str, Any], given: tuple[int, ...]) -> None:
    if walls["run_as"] is not None:
        uid, gid = walls["run_as"]
        os.setgroups([])
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
    drop_own()
    for rules in given:
        landlock.restrict(rules)
        os.close(rules)
    if not given:
        landlock.close_signals()  # to its guard
    if walls["filter"]:
        take_filter(base64.b64decode(walls["filter"]))


def _require(guarded_by: int) -> None:
    """Nothing runs without its guard, also after a change of user, which undoes the first."""
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
