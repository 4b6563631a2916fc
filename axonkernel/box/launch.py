"""Start boxes: a plan and a command in, a running box out.

A supervisor never forks itself: with a 500 MB heap that takes 22 ms. A
``Launcher`` keeps one small fork server that makes wardens ahead of need; a short-lived
command-line process, which is small, forks its warden directly (``fork_warden``).

Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import time
from _thread import allocate_lock  # as threading has it
from collections.abc import Callable

from axonkernel.box.channel import Channel, ChannelClosed, pair
from axonkernel.box.milestones import reached
from axonkernel.box.model import BoxPlan, BoxResult, Command, LimitsPlan, decode_result
from axonkernel.box.programs import find, install
from axonkernel.box.server import Server, start_server
from axonkernel.errors import BoxError, IsolationUnavailable
from axonkernel.forks import forget_in_children
from axonkernel.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from axonkernel.box.limiter import Limiter

__all__ = ["BoxProcess", "Heard", "Launcher", "fork_warden", "needs_scope", "start"]


class BoxProcess:
    """A box from the supervisor's side. Closing it, or dying, kills the box.

    Arguments:
        heard: called with the box and what its warden tells while it runs, such as
            ``{"event": "net", "refused": [...]}``, by the thread that waits for the box.

    Attributes:
        pid: the agent's program, in this process's pid namespace; 0 when nothing ran.
        result: how it ended; None while it runs.
    """

    def __init__(self, control: Channel, heard: Heard | None = None) -> None:
        self._control = control
        self._heard = heard
        self.pid = 0
        self.result: BoxResult | None = None
        forget_in_children(self)

    def forget(self) -> None:
        """In a child: the box is the parent's, and ends with that."""
        self._control.close()

    def fileno(self) -> int:
        """Readable when the box has ended, or has something to tell: ``wait(0)`` takes it."""
        return self._control.fileno()

    def wait(self, timeout_s: float | None = None) -> BoxResult | None:
        """How the box ended; None when it still runs after ``timeout_s`` seconds."""
        until_s = None if timeout_s is None else time.monotonic() + timeout_s
        while self.result is None:
            if until_s is not None and not self._readable(max(0.0, until_s - time.monotonic())):
                return None
            self._take()
        return self.result

    def kill(self) -> None:
        """End every process of the box now."""
        self._order({"op": "kill"})

    def signal(self, number: int, grace_s: float | None = None) -> None:
        """Send a signal to the agent's program.

        Arguments:
            grace_s: seconds after which the box is killed if it still runs; None to let be.
        """
        self._order({"op": "signal", "number": number, "grace_s": grace_s})

    def pause(self) -> None:
        """Stop the wall clock, while a human is asked."""
        self._order({"op": "pause"})

    def resume(self) -> None:
        """Let the wall clock run again."""
        self._order({"op": "resume"})

    def grant(self, host: str, protocol: str, ports: str) -> None:
        """Let a destination be reached for the rest of the run: a person said so."""
        self._order({"op": "grant", "host": host, "protocol": protocol, "ports": ports})

    def report(self, number: int, since_s: float) -> None:
        """Have all that was refused since a moment (seconds since 1970) told in an event, which
        has the number."""
        self._order({"op": "report", "number": number, "since_s": since_s})

    def refuse(self, name: str) -> None:
        """Let a name that was asked about be refused."""
        self._order({"op": "refuse", "host": name})

    def close(self) -> None:
        """Let go of the box; one that still runs is killed."""
        self._control.close()

    def _readable(self, timeout_s: float) -> bool:
        poll = select.poll()
        poll.register(self._control, select.POLLIN)
        return bool(poll.poll(timeout_s * 1000))

    def _order(self, order: dict[str, object]) -> None:
        if self.result is None:
            self._tell(order)

    def _tell(self, message: dict[str, Any], descriptors: tuple[int, ...] = ()) -> None:
        """Send to the warden; if it has died, that is what is received next."""
        with contextlib.suppress(ChannelClosed):
            self._control.send(message, descriptors)

    def _receive(self, wanted: str) -> dict[str, Any]:
        """The next event named ``wanted``, or the end; events in between are heard."""
        while True:
            event = self._take()
            if event["event"] in (wanted, "ended"):
                return event

    def _take(self) -> dict[str, Any]:
        """The next event."""
        try:
            event, _ = self._control.receive()
        except ChannelClosed:
            event = {"event": "ended", "result": [125, "launch", "warden", "the warden died"]}
        match event["event"]:
            case "running":
                self.pid = event["pid"]
            case "ended":
                self.result = decode_result(event["result"])
            case "net" if self._heard is not None:
                self._heard(self, event)
        return event


#: Told of a box's events, see :class:`BoxProcess`.
Heard = Callable[[BoxProcess, dict[str, Any]], None]


def start(
    control: Channel,
    plan: BoxPlan,
    command: Command,
    *,
    unit: str = "",
    limiter: Limiter | None = None,
    heard: Heard | None = None,
    before: Callable[[BoxProcess], None] | None = None,
) -> BoxProcess:
    """Hand one box to a waiting warden; returns when the program runs, or failed to.

    Arguments:
        control: a channel to a warden that serves nothing yet.
        unit: name of the scope, when the plan's limits need one; "" makes a name.
        limiter: puts the box under its limits; None makes one for this box.
        heard: see :class:`BoxProcess`.
        before: called with the box while it is made; the program does not run before it has
            returned, and not at all when it raises. Signals that the box is sent from then on
            reach the program when it runs.

    Raises IsolationUnavailable when limits need a scope and none can be had.
    """
    box = BoxProcess(control, heard)
    scoped = needs_scope(plan.limits)
    job = {"plan": plan, "command": command, "bwrap": _bwrap(), "scope": scoped}
    job["held"] = before is not None
    with open(os.devnull, "r+b", buffering=0) as null:
        stdio = (command.stdin, command.stdout, command.stderr)
        given = [fd if _is_open(fd) else null.fileno() for fd in stdio]
        lent = [fd for fd in (command.channel, command.caller, command.lends) if fd >= 0]
        box._tell(job, (*given, *lent, *command.lent))
    if scoped:
        built = box._receive("built")
        reached("built")
        if box.result is None:
            limiter = limiter or _limiter(None, brief=True)
            _confine(box, plan, built, unit, limiter)
    if before is not None:
        _do_before(box, before)
    if box.result is None:
        box._receive("running")
        reached("running")
    if limiter is not None:
        limiter.sweep()
    return box


def _do_before(box: BoxProcess, before: Callable[[BoxProcess], None]) -> None:
    try:
        before(box)
    except BaseException:
        box.close()
        raise
    box._order({"op": "run"})


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def needs_scope(limits: LimitsPlan | None) -> bool:
    """Whether a limit is declared that only a control group holds."""
    return limits is not None and bool(limits.memory_bytes or limits.cpu_millicores or limits.pids)


def _limiter(shared: LimitsPlan | None, *, brief: bool = False) -> Limiter:
    from axonkernel.box.limiter import Limiter

    return Limiter(shared, brief=brief)


def _confine(
    box: BoxProcess, plan: BoxPlan, built: dict[str, Any], unit: str, limiter: Limiter
) -> None:
    assert plan.limits is not None
    try:
        folder = limiter.confine(plan.limits, built["pids"], built["init"], unit)
    except (IsolationUnavailable, OSError) as error:
        if not all(map(_runs, built["pids"])):
            box._tell({"op": "stop", "message": "the box was killed while it was being made"})
            return  # nothing is wrong with the machine
        box._tell({"op": "stop", "message": str(error)})
        raise
    reached("scoped")
    box._tell({"op": "go", "group": folder})


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def _bwrap() -> str:
    program = find("bwrap")
    if program is None:
        raise IsolationUnavailable("the box", "bwrap", install("bubblewrap"))
    return program


def fork_warden() -> Channel:
    """A warden forked from this process, which must be small and have one thread.

    It gets ready while this process goes on: ask for it before the plan is made.
    """
    ours, theirs = pair()
    if os.fork() == 0:
        os.setsid()  # ^C is for the supervisor to judge
        from axonkernel.box import prelude

        ours.close()
        prelude.serve(theirs)
    theirs.close()
    return ours


class Launcher:
    """Starts boxes from a process of any size, from any thread, after forks too.

    Its fork server is started at the first box, unless :meth:`get_ready` was called, and
    ends with this process.

    Arguments:
        shared: caps that all its boxes hold together, in one slice; each still has its own.
    """

    def __init__(self, shared: LimitsPlan | None = None) -> None:
        self._lock = allocate_lock()
        self._shared = shared if needs_scope(shared) else None
        self._limiter: Limiter | None = None
        self._server: Server | None = None
        forget_in_children(self)

    def forget(self) -> None:
        """Let go of the server of the process this one was forked from."""
        self._lock = allocate_lock()
        self._limiter = None  # its boxes are the parent's
        if self._server is not None:
            self._server.close()
            self._server = None

    def share(self, limits: LimitsPlan | None) -> None:
        """Hold all boxes together under ``limits``; before the first of them."""
        self._shared = limits if needs_scope(limits) else None

    def get_ready(self) -> None:
        """Start the fork server now: it takes 30 ms that can pass while a plan is made."""
        with self._lock:
            self._channel()

    def start(
        self, plan: BoxPlan, command: Command, *, unit: str = "", heard: Heard | None = None
    ) -> BoxProcess:
        """Start ``command`` in a box made by ``plan``; see :func:`start`.

        Raises IsolationUnavailable, or BoxError when the fork server cannot be started.
        """
        ours, theirs = pair()
        order = {"op": "warden", "link": "none" if plan.net is None else plan.net.link}
        try:
            with self._lock:
                self._channel().send(order, (theirs.fileno(),))
        except ChannelClosed as error:
            self.close()
            ours.close()
            raise BoxError("fork server", f"the fork server ended: {error}") from error
        finally:
            theirs.close()
        limiter = self._limits() if needs_scope(plan.limits) else None
        return start(ours, plan, command, unit=unit, limiter=limiter, heard=heard)

    def _limits(self) -> Limiter:
        """What holds the limits of this launcher's boxes, made with the first of them."""
        with self._lock:
            if self._limiter is None:
                self._limiter = _limiter(self._shared)
            return self._limiter

    def close(self) -> None:
        """End the fork server. Boxes that run go on until their own end."""
        with self._lock:
            if self._server is not None:
                self._server.close()
                self._server = None
            if self._limiter is not None:
                self._limiter.close()
                self._limiter = None

    def _channel(self) -> Channel:
        if self._server is not None and not self._server.is_current:
            self._server.close()
            self._server = None
        if self._server is None:
            self._server = _start_server()
        return self._server.channel


def _start_server() -> Server:
    return start_server("forkserver", _library_folders())


def _library_folders() -> list[str]:
    """Where the two libraries are that wardens and keepers of links load, which ``-S`` hides."""
    from importlib.util import find_spec

    specs = filter(None, map(find_spec, ("pyroute2", "nftables")))
    origins = [spec.origin for spec in specs if spec.origin]
    return list(dict.fromkeys(os.path.dirname(os.path.dirname(origin)) for origin in origins))
