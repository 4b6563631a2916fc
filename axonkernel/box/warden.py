"""The warden: one small process outside each box, and the whole life of that box.

It starts bwrap, enters the box's network namespace from outside, loads the table, holds the
program at its exec until every wall is seen (gate.py), keeps the wall clock, and reports how
it ended. It is single-threaded, because entering a user namespace demands it and because a
box dies with the thread that started it. When the supervisor's end of the
channel closes, the box is killed.

Standard library only; what loads the table is imported while bwrap makes its namespaces.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from typing import NoReturn

from axonkernel.box import cgroup, gate
from axonkernel.box.channel import Channel, ChannelClosed
from axonkernel.box.clock import WallClock
from axonkernel.box.link import Link
from axonkernel.box.linux import (
    CLONE_NEWNET,
    CLONE_NEWUSER,
    die_with_parent,
    owning_user_namespace,
    set_namespace,
)
from axonkernel.box.lookup import NOT_EXECUTABLE, NOT_FOUND, require_program
from axonkernel.box.model import BoxPlan, BoxResult, Command, Reason, decode_plan
from axonkernel.box.spawn import Spawned, spawn
from axonkernel.box.staging import settle
from axonkernel.errors import BoxError

__all__ = ["serve"]

#: How often the memory counters are looked at while a scope holds the box (seconds).
_COUNTERS_EVERY_S = 0.2
_MAP_WITHIN_S = 5.0
_UNMADE = "bwrap ended before the box was made (see its message)"
#: What the launch itself answers with when nothing ran, as env(1) and `docker run` do.
_EXIT_CODES = {NOT_FOUND: 127, NOT_EXECUTABLE: 126}


def serve(control: Channel) -> NoReturn:
    """Run the one box the first message asks for, then exit. Never returns."""
    try:
        job, given = control.receive()
        warden = _Warden(control, decode_plan(job["plan"]), Command(*job["command"]))
        warden.run(job["bwrap"], given, scope=job["scope"])
    except ChannelClosed:
        os._exit(1)
    os._exit(0)


class _Warden:
    def __init__(self, control: Channel, plan: BoxPlan, command: Command) -> None:
        self.control = control
        self.plan = plan
        self.command = command
        self.bwrap = Spawned(0, -1, -1)
        self.init = 0  # the box's pid 1, as seen from outside
        self.mounted = False
        self.agent = 0
        self.parked = 0
        self.link: Link | None = None
        self.group: cgroup.Group | None = None
        self.reason: Reason = "exit"
        self.reaped: dict[int, int] = {}
        self.started_s = 0.0

    def run(self, program: str, given: tuple[int, ...], *, scope: bool) -> None:
        """The straight line; whatever fails before the program runs undoes the rest."""
        stage = "start"
        try:
            outside = gate.namespaces()
            if scope:
                self.parked = _park()
            if self.plan.net is not None and self.plan.net.link != "none":
                self.link = Link(self.plan.net, foreign=self.plan.run_as is not None)
            self.bwrap = spawn(program, self.plan, self.command, given, gate.seize)
            if self.plan.net is not None:
                _ready_tables()
            stage = "mounts"
            self.init = self._made()
            stage = "table"
            self._enter_network()
            stage = "limits"
            if scope:
                self._await_scope()
            stage = "gate"
            self._pass_gate(outside)
        except BoxError as error:
            self._abort(error.stage, error.message)
        except (gate.GateError, OSError) as error:
            self._abort(stage, str(error))
        except ChannelClosed:
            self._abort("supervisor", "the supervisor is gone")
        else:
            self._watch()
            self._report()

    # -- the launch ---------------------------------------------------------------------

    def _made(self) -> int:
        """The box's pid 1, which bwrap names as soon as it has it."""
        init = gate.await_init(self.bwrap.pid, self.reaped)
        if init is None or init != _child_pid(self.bwrap.status):
            raise BoxError("mounts", _UNMADE)
        return init

    def _enter_network(self) -> None:
        """Join the network namespace by the user namespace that owns it, and wall it."""
        if self.plan.net is None:
            return
        network = os.open(f"/proc/{self.init}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        owner = owning_user_namespace(network)
        set_namespace(owner, CLONE_NEWUSER)
        set_namespace(network, CLONE_NEWNET)
        os.close(network)
        os.close(owner)
        _wait_for_uid()
        from axonkernel.box import nft

        nft.load(nft.ruleset(self.plan.net))
        if self.link is not None:
            self.link.up(os.getpid())  # after the table: there is no moment without it

    def _await_scope(self) -> None:
        """Have the supervisor move the box into its scope."""
        pids = [pid for pid in (self.bwrap.pid, self.init, self.parked) if pid]
        self.control.send({"event": "built", "init": self.init, "pids": pids})
        order, _ = self.control.receive()
        if order["op"] != "go":
            raise BoxError("limits", order.get("message", "the supervisor gave up"))
        self.group = cgroup.find(self.init)

    def _pass_gate(self, outside: dict[str, str]) -> None:
        os.write(self.bwrap.hold, b"1")
        os.close(self.bwrap.hold)
        pid = gate.await_exec(self.init, self.reaped, self._require_program)
        if pid is None and not self.mounted:
            raise BoxError("mounts", _UNMADE)
        if pid is None:
            name = self.command.argv[0]
            raise BoxError(NOT_EXECUTABLE, f"{name}: its interpreter or loader is not in the box")
        found = gate.faults(
            pid, outside, own_net=self.plan.net is not None, filtered=bool(self.plan.filter)
        )
        if found:
            raise gate.GateError("; ".join(found))
        self.agent, self.started_s = pid, time.monotonic()
        gate.release(pid)
        self.control.send({"event": "running", "pid": pid})

    def _require_program(self, pid: int) -> None:
        """Say why the program cannot be executed, while its files can be seen."""
        self.mounted = True
        settle(pid, self.bwrap.moves)
        env = dict(self.plan.env if self.command.env is None else self.command.env)
        cwd = self.plan.cwd if self.command.cwd is None else self.command.cwd
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            require_program(root, self.command.argv[0], cwd, env.get("PATH", ""))
        finally:
            os.close(root)

    # -- while it runs ------------------------------------------------------------------

    def _watch(self) -> None:
        clock = WallClock(self.plan.limits.wall_s if self.plan.limits else 0.0)
        ended = os.pidfd_open(self.bwrap.pid)
        poll = select.poll()
        poll.register(self.control, select.POLLIN)
        poll.register(ended, select.POLLIN)
        while self.bwrap.pid not in self.reaped:
            ready = {fd for fd, _ in poll.poll(self._patience_ms(clock))}
            if self.control.fileno() in ready:
                self._obey(clock)
            if ended in ready:
                _, self.reaped[self.bwrap.pid] = os.waitpid(self.bwrap.pid, 0)
            elif clock.left_s() == 0.0:
                self._kill("wall")
            elif self.group is not None and self.group.counters().oom_kills:
                self._kill("memory")
        os.close(ended)

    def _patience_ms(self, clock: WallClock) -> float | None:
        left_s = clock.left_s()
        if self.group is not None:
            left_s = _COUNTERS_EVERY_S if left_s is None else min(left_s, _COUNTERS_EVERY_S)
        return None if left_s is None else left_s * 1000 + 1

    def _obey(self, clock: WallClock) -> None:
        try:
            order, _ = self.control.receive()
        except ChannelClosed:
            self._abort("supervisor", "the supervisor is gone")
            raise
        match order["op"]:
            case "kill":
                self._kill("killed")
            case "signal":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.agent, order["number"])
            case "pause":
                clock.pause()
            case "resume":
                clock.resume()

    def _kill(self, reason: Reason) -> None:
        """End every process of the box, by its pid 1."""
        if self.reason == "exit":
            self.reason = reason
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.init or self.bwrap.pid, signal.SIGKILL)

    # -- the end ------------------------------------------------------------------------

    def _abort(self, stage: str, message: str) -> None:
        """Undo what stands; nothing ran, or the supervisor is gone."""
        if self.bwrap.pid and self.bwrap.pid not in self.reaped:
            self._kill("launch")
            gate.reap_until(self.bwrap.pid)
        self._finish(BoxResult(_EXIT_CODES.get(stage, 125), "launch", stage, message))

    def _refused(self) -> tuple[tuple[str, str, int], ...]:
        if self.plan.net is None:
            return ()
        from axonkernel.box import nft

        return nft.read_refused()

    def _report(self) -> None:
        counters = self.group.counters() if self.group is not None else cgroup.Counters()
        code = _exit_code(self.bwrap.status, self.reaped[self.bwrap.pid])
        oom = counters.oom_kills > 0
        reason: Reason = "memory" if oom and code == 128 + signal.SIGKILL else self.reason
        self._finish(
            BoxResult(
                code,
                reason,
                wall_s=time.monotonic() - self.started_s,
                cpu_s=counters.cpu_s,
                peak_memory_bytes=counters.peak_memory_bytes,
                peak_pids=counters.peak_pids,
                oom=oom,
                denied=self._refused(),
            )
        )

    def _finish(self, result: BoxResult) -> None:
        if self.link is not None:
            self.link.cut()
        if self.parked:
            os.kill(self.parked, signal.SIGKILL)
            os.waitpid(self.parked, 0)
        with contextlib.suppress(ChannelClosed):
            self.control.send({"event": "ended", "result": list(result)})
        if self.link is not None:
            self.link.wait()  # the kernel takes 20 to 40 ms to undo it; nobody waits for that


def _ready_tables() -> None:
    """Load the binding, unless the fork server has: bwrap is busy on another processor."""
    from axonkernel.box import nft

    nft.warm_up()


def _wait_for_uid() -> None:
    """Until bwrap has written the uid map: a program started as nobody has no capability."""
    deadline_s = time.monotonic() + _MAP_WITHIN_S
    while not _uid_map():
        if time.monotonic() > deadline_s:
            raise BoxError("table", "bwrap wrote no uid map")
        time.sleep(0.0002)


def _uid_map() -> str:
    with open("/proc/self/uid_map", encoding="ascii") as file:
        return file.read()


def _park() -> int:
    """A process that stays last in the scope, so that its counters can still be read."""
    pid = os.fork()
    if pid:
        return pid
    die_with_parent(signal.SIGKILL)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # systemd's first word at RuntimeMax
    while True:
        signal.pause()


def _child_pid(status: int) -> int:
    text = b""
    while b"}" not in text:
        part = os.read(status, 4096)
        if not part:
            raise BoxError("mounts", _UNMADE)
        text += part
    return int(json.loads(text[: text.index(b"}") + 1])["child-pid"])


def _exit_code(status: int, wait_status: int) -> int:
    """The command's exit code by bwrap's own word, else what became of bwrap."""
    text = b""
    while part := os.read(status, 4096):
        text += part
    for line in text.splitlines():
        with contextlib.suppress(ValueError, KeyError, TypeError):
            return int(json.loads(line)["exit-code"])
    code = os.waitstatus_to_exitcode(wait_status)
    return code if code >= 0 else 128 - code
