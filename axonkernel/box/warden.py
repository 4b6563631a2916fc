"""The warden: one small process outside each box, and the whole life of that box.

It starts bwrap (prelude.py), enters the box's network namespace from outside, loads the table
(entering.py), holds the program at its exec until every wall is seen (gate.py), watches it
(watch.py), and reports how it ended. It is single-threaded, because entering a user namespace
demands it and because a box dies with the thread that started it: so a box lives with its
warden, whatever becomes of the thread that asked for it. When the supervisor's end of the
channel closes, the box is killed.

Standard library only; all of this is imported while bwrap makes its namespaces.
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import time

from axonkernel.box import cgroup, gate, keeper, unheld
from axonkernel.box.channel import Channel, ChannelClosed
from axonkernel.box.entering import load_ahead, ready_tables, wall_network
from axonkernel.box.lookup import NOT_EXECUTABLE, NOT_FOUND, require_program
from axonkernel.box.milestones import reached
from axonkernel.box.model import BoxPlan, BoxResult, Command, Reason, Refusal
from axonkernel.box.resolver.starting import Resolver
from axonkernel.box.standing import Standing
from axonkernel.box.told import UNMADE, child_pid, exit_code
from axonkernel.box.watch import watch
from axonkernel.errors import BoxError
from axonkernel.typed import Any

__all__ = ["Warden"]

_OF_GROUPS = (signal.SIGTSTP, signal.SIGCONT)
#: What the launch itself answers with when nothing ran, as env(1) and `docker run` do.
_EXIT_CODES = {NOT_FOUND: 127, NOT_EXECUTABLE: 126}


class Warden:
    """The life of a box from the moment its bwrap was started.

    Arguments:
        standing: what stands of it already.
        held: the program runs when the supervisor says so.
    """

    def __init__(
        self,
        control: Channel,
        plan: BoxPlan,
        command: Command,
        standing: Standing,
        *,
        held: bool,
    ) -> None:
        self.control = control
        self.plan = plan
        self.command = command
        self.standing = standing
        self.held = held
        self.early: list[dict[str, Any]] = []
        self.mounted = False
        self.scope_due = False
        self.started_s = 0.0

    def run(self, outside: dict[str, str], fault: Exception | None, *, scope: bool) -> None:
        """The straight line; whatever fails before the program runs undoes the rest.

        Arguments:
            outside: the namespaces of the supervisor's side.
            fault: why bwrap could not be started; None when it was.
            scope: the supervisor moves the box into a control group.
        """
        stage = "start"
        standing = self.standing
        try:
            if fault is not None:
                raise fault
            if self.plan.net is not None:
                ready_tables()
                load_ahead()
                standing.resolver = Resolver(self.plan.net)
            keeper.sweep(self.plan)
            stage = "mounts"
            self._await_init()
            if scope:
                self._ask_for_scope()
            stage = "table"
            self._wall_network()
            stage = "limits"
            self._await_scope()
            stage = "gate"
            if self.plan.traced:
                self._pass_gate(outside)
            else:
                self._pass_unheld(outside)
            wall_s = self.plan.limits.wall_s if self.plan.limits else 0.0
            gc.enable()  # off since before the fork, where a launch is waited for
            watch(standing, self.control, wall_s, self.plan.net, self.early)
        except BoxError as error:
            self._abort(error.stage, error.message)
        except (gate.GateError, OSError) as error:
            self._abort(stage, str(error))
        except ChannelClosed:
            standing.restore_terminal()
            self._abort("supervisor", "the supervisor is gone")
        else:
            self._report()

    # -- the launch ---------------------------------------------------------------------

    def _await_init(self) -> None:
        """The box's pid 1, which bwrap names as soon as it has it."""
        if not self.plan.traced:
            self.standing.made(child_pid(self.standing.bwrap.status))
            reached("made")
            return
        init = gate.await_init(self.standing.bwrap.pid, self.standing.reaped)
        if init is None:
            child_pid(self.standing.bwrap.status)  # raises with what was said there
            raise BoxError("mounts", UNMADE)
        self.standing.made(init)
        if init != child_pid(self.standing.bwrap.status):
            raise BoxError("mounts", UNMADE)
        reached("made")

    def _wall_network(self) -> None:
        if self.plan.net is None:
            return
        wall_network(self.standing.init, self.plan.net)
        if self.standing.resolver is not None:
            self.standing.resolver.open()
        reached("walled")
        if self.standing.link is not None:
            self.standing.link.begin(os.getpid())  # after the table: no moment without it

    def _ask_for_scope(self) -> None:
        """Have the supervisor move the box into its scope, which takes systemd 10 ms."""
        standing = self.standing
        pids = [pid for pid in (standing.bwrap.pid, standing.init, standing.parked) if pid]
        self.control.send({"event": "built", "init": standing.init, "pids": pids})
        self.scope_due = True

    def _await_scope(self) -> None:
        """The box is in its scope: what its pid 1 forks before that would stay outside."""
        if not self.scope_due:
            return
        standing = self.standing
        order, _ = self.control.receive()
        self.scope_due = False
        if order["op"] != "go":
            raise BoxError("limits", order.get("message", "the supervisor gave up"))
        standing.folder = order["group"]
        found = cgroup.of(standing.folder) if standing.folder else cgroup.find(standing.init)
        standing.group = found
        reached("confined")

    def _pass_gate(self, outside: dict[str, str]) -> None:
        standing = self.standing
        os.write(standing.bwrap.hold, b"1")
        os.close(standing.bwrap.hold)
        reached("opened")
        pid = gate.await_exec(standing.init, standing.reaped, self._require_program)
        if pid is None and not self.mounted:
            raise BoxError("mounts", UNMADE)
        if pid is None:
            name = self.command.argv[0]
            raise BoxError(NOT_EXECUTABLE, f"{name}: its interpreter or loader is not in the box")
        reached("held")
        found = gate.faults(
            pid, outside, own_net=self.plan.net is not None, filtered=bool(self.plan.filter)
        )
        if found:
            raise gate.GateError("; ".join(found))
        standing.held(pid)
        reached("checked")
        self._await_link()
        self._require_supervisor()
        self.started_s = time.monotonic()
        gate.release(pid, unmask=self.command.terminal)
        reached("released")
        self.control.send({"event": "running", "pid": pid})

    def _pass_unheld(self, outside: dict[str, str]) -> None:
        """The same without ptrace: what can be seen before the exec, and the filter after."""
        standing = self.standing
        unheld.await_block(standing.init)
        own_net = self.plan.net is not None
        if found := gate.faults(standing.init, outside, own_net=own_net, filtered=False):
            raise gate.GateError("; ".join(found))
        self._require_program(standing.init)
        self._await_link()
        self._require_supervisor()
        self.started_s = time.monotonic()
        os.write(standing.bwrap.hold, b"1")
        os.close(standing.bwrap.hold)
        reached("opened")
        pid = unheld.await_program(standing.init)
        if pid:
            standing.held(pid)
        if pid and self.plan.filter and (fault := unheld.filter_fault(pid, standing.init)):
            raise gate.GateError(fault)
        reached("released")
        self.control.send({"event": "running", "pid": pid})

    def _await_link(self) -> None:
        """It was begun when the table stood, and made while bwrap mounted."""
        if self.standing.link is not None:
            self.standing.link.await_up()
            reached("linked")

    def _require_program(self, pid: int) -> None:
        """Say why the program cannot be executed, while its files can be seen."""
        self.mounted = True
        reached("mounted")
        if self.standing.keeper is not None:
            self.standing.keeper.enter(pid)
        if self.standing.lender is not None:
            self.standing.lender.enter(pid)
        env = dict(self.plan.env if self.command.env is None else self.command.env)
        cwd = self.plan.cwd if self.command.cwd is None else self.command.cwd
        root = os.open(f"/proc/{pid}/root", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            require_program(root, self.command.argv[0], cwd, env.get("PATH", ""))
        finally:
            os.close(root)

    def _require_supervisor(self) -> None:
        """Nothing runs for a supervisor that has died meanwhile, nor without a whole bwrap."""
        while self.held:
            order, _ = self.control.receive()
            if order["op"] == "kill":
                raise BoxError("supervisor", "ended before it ran")
            if order["op"] == "run":
                self.held = False
                continue
            # It meets the program at its first instruction, but what stops and continues a group
            # (watch.py), which there is none of yet.
            single = order["op"] == "signal" and order["number"] not in _OF_GROUPS
            if single and self.standing.signal(order["number"]):
                order["number"] = 0
            self.early.append(order)
        poll = select.poll()
        poll.register(self.control, select.POLLHUP)
        poll.register(self.standing.ended, select.POLLIN)
        for fd, _ in poll.poll(0):
            if fd == self.standing.ended:
                raise BoxError("mounts", UNMADE)
            raise ChannelClosed("the supervisor is gone")

    # -- the end ------------------------------------------------------------------------

    def _abort(self, stage: str, message: str) -> None:
        """Undo what stands; nothing ran, or the supervisor is gone."""
        # A group that is being made is known, and its processes are there, when that is over.
        with contextlib.suppress(BoxError, ChannelClosed, OSError):
            self._await_scope()
        self.standing.take_down()
        self._finish(BoxResult(_EXIT_CODES.get(stage, 125), "launch", stage, message))

    def _report(self) -> None:
        standing = self.standing
        standing.take_down()
        counters = standing.group.counters() if standing.group is not None else cgroup.Counters()
        wall_s = time.monotonic() - self.started_s
        code, reason = self._how_it_ended(wall_s, oom=counters.oom_kills > 0)
        self._finish(
            BoxResult(
                code,
                reason,
                wall_s=wall_s,
                cpu_s=standing.cpu_s() if counters.cpu_s is None else counters.cpu_s,
                peak_memory_bytes=counters.peak_memory_bytes,
                peak_pids=counters.peak_pids,
                oom=counters.oom_kills > 0,
                refused_pids=counters.refused_pids,
                denied=self._refused(),
            )
        )

    def _how_it_ended(self, wall_s: float, *, oom: bool) -> tuple[int, Reason]:
        """Exit code and reason."""
        status = self.standing.reaped[self.standing.bwrap.pid]
        code = exit_code(self.standing.bwrap.status, status)
        if oom:
            # One kill for memory ends all, also what would have ended well just before.
            return 128 + signal.SIGKILL, "memory"
        limits = self.plan.limits
        if self.standing.reason == "exit" and limits is not None and os.WIFSIGNALED(status):
            # Nobody in the box can signal bwrap: systemd's clock came first, ours was stopped.
            return code, "wall" if 0 < limits.wall_s <= wall_s else "exit"
        return code, self.standing.reason

    def _refused(self) -> tuple[Refusal, ...]:
        if self.plan.net is None:
            return ()
        from axonkernel.box.resolver.refused import read

        standing = self.standing
        if standing.resolver is not None:
            standing.refusals.note(*standing.resolver.end())
        refused = (each._replace(name=standing.name_of(each.address)) for each in read())
        standing.refusals.note(*refused)
        return standing.refusals.all()

    def _finish(self, result: BoxResult) -> None:
        link = self.standing.link
        if link is not None:
            link.cut()
        self.standing.unpark()
        if self.standing.keeper is not None:
            result = result._replace(kept=self.standing.keeper.end())
        with contextlib.suppress(ChannelClosed):
            self.control.send({"event": "ended", "result": list(result)})
        if self.standing.keeper is not None:
            self.standing.keeper.wait()
        if link is not None:
            link.wait()  # the kernel takes 20 to 40 ms to undo it; nobody waits for that
