"""The supervisor's answers to the calls of one box: judged, run in a box of its own, told."""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from attrs import frozen

from axonkernel.audit import AuditSink
from axonkernel.box.host import Ask, brokered_programs
from axonkernel.box.lending import borrow, lendable
from axonkernel.box.model import BoxPlan, BoxResult, Command
from axonkernel.box.protections import lies_in
from axonkernel.broker.judge import Judge
from axonkernel.broker.listener import Incoming, Listener
from axonkernel.broker.opening import Opening
from axonkernel.broker.sibling import Asked, Sibling, asked_env, called, sibling
from axonkernel.broker.wire import DENIED, LOST, Ended, Refused
from axonkernel.drops import Asking, Drops
from axonkernel.errors import AuditError, AxonError, BoxError, PolicyDenied
from axonkernel.policy.model import Policy
from axonkernel.policy.request import ProcessRequest

if TYPE_CHECKING:
    from axonkernel.box.find import Program
    from axonkernel.box.launch import Launcher

__all__ = ["Served", "Serving"]

_DID_NOT_RUN = "The call did not run."
#: Mounts that hold folders.
_HOLD = ("bind", "ro-bind", "tmpfs", "lent")


@frozen
class Served:
    """The box whose calls are answered.

    Arguments:
        policy: closed, all layers met, paths resolved.
        plan: of the box.
        ask: what the box was wanted for.
        environ: the supervisor's environment.
        owner: as for ``prepare``.
        agent: who runs in it, for records.
    """

    policy: Policy
    plan: BoxPlan
    ask: Ask
    environ: Mapping[str, str]
    owner: int | None
    agent: str


class Serving:
    """Answers calls until it is closed.

    Arguments:
        launcher: starts the boxes of the programs.
        judge: decides about each call.
    """

    def __init__(
        self, opening: Opening, served: Served, launcher: Launcher, judge: Judge, audit: AuditSink
    ) -> None:
        self._opening = opening
        self._served = served
        self._launcher = launcher
        self._judge = judge
        self._audit = audit
        self._programs = brokered_programs(served.policy, served.ask, served.environ)
        self._lends = lendable(served.plan)
        self._lock = threading.Lock()  # of the lender, and of what follows
        self._siblings: dict[str, Sibling] = {}
        self._listener = Listener(opening.socket, self._answer)

    def get_ready(self) -> None:
        """Plan the boxes of the programs now; what cannot be planned is told to who calls it."""
        self._launcher.get_ready()
        for program in self._programs:
            try:
                self._sibling(program)
            except AxonError:
                continue

    def close(self) -> None:
        """Take no more calls, and end what runs for earlier ones."""
        self._listener.close()
        self._opening.close()

    def _answer(self, incoming: Incoming) -> Refused | Ended:
        program = called(self._programs, incoming.program, incoming.found or incoming.argv[0])
        if program is None:
            name = incoming.found or incoming.argv[0]
            return Refused(127, f"{name} is no program of this box. {_DID_NOT_RUN}")
        try:
            found = self._sibling(program)
        except AxonError as error:
            return self._failed("", error)
        asked = asked_env(
            self._served.policy.env, incoming.env, dict(self._served.plan.env), found.profile
        )
        argv = (program.name, *incoming.argv[1:])
        request = ProcessRequest(argv, incoming.cwd, False, asked.judged, program.file)
        try:
            identity = self._judge.require(
                request, (program.name.rpartition("/")[2], program.file), asked.passed,
                incoming.gone,
            )  # fmt: skip
        except AuditError as error:
            return Refused(DENIED, f"denied (internal): {error}. {_DID_NOT_RUN}")
        if incoming.gone():
            return Refused(LOST, _DID_NOT_RUN)
        if not _is_there(found.plan, incoming.cwd):
            where = incoming.cwd or "its own, which has no name"
            text = f"the working directory {where} does not exist where the program runs"
            return Refused(DENIED, f"{text}: it sees what is granted, /tmp and the home")
        return self._run(incoming, found, asked, identity)

    def _run(
        self, incoming: Incoming, found: Sibling, asked: Asked, identity: str
    ) -> Refused | Ended:
        stdin, stdout, stderr = incoming.files
        allowed = partial(self._judge.allows, found.program)
        ready = found.ready(incoming.argv[1:], asked.passed, allowed)
        try:
            lent = self._borrowed(found)
            try:
                command = Command(
                    (ready.program, *incoming.argv[1:]),
                    stdin,
                    stdout,
                    stderr,
                    cwd=incoming.cwd,
                    env=tuple(ready.env.items()),
                    lent=lent,
                )
                plan = ready.plan
                drops = self._drops(plan, identity)
                box = self._launcher.start(plan, command, heard=drops.heard)
            finally:
                _close(lent)
            try:
                result = incoming.follow(box)
                drops.ended(result)
            finally:
                box.close()
        except AxonError as error:
            return self._failed(identity, error)
        return self._ended(identity, result)

    def _drops(self, plan: BoxPlan, identity: str) -> Drops:
        """What takes the refusals of the box of one call."""
        asking = Asking(self._judge.ask)
        agent = self._served.agent
        fields = {"source": "broker", "decision_id": identity}
        return Drops(self._audit, agent, plan.net, asking, **fields)

    def _borrowed(self, found: Sibling) -> tuple[int, ...]:
        with self._lock:
            return borrow(self._opening.lender, found.lent) if found.lent else ()

    def _sibling(self, program: Program) -> Sibling:
        with self._lock:
            found = self._siblings.get(program.name)
            if found is None:
                served = self._served
                found = sibling(
                    served.policy, program, served.ask, served.environ, served.owner, self._lends
                )
                self._siblings[program.name] = found
            return found

    def _failed(self, identity: str, error: AxonError) -> Refused:
        """Nothing ran; why is for the operator."""
        if isinstance(error, PolicyDenied):
            raise error
        self._audit.record(
            "process.failed",
            source="broker",
            agent=self._served.agent,
            decision_id=identity,
            error=type(error).__name__,
            message=str(error),
        )
        return Refused(LOST, f"no box could be made for the program. {_DID_NOT_RUN}")

    def _ended(self, identity: str, result: BoxResult) -> Refused | Ended:
        if result.reason == "launch":
            if result.exit_code in (126, 127):
                return Refused(result.exit_code, result.message)
            return self._failed(identity, BoxError(result.stage, result.message))
        self._audit.record(
            "process.ended",
            source="broker",
            agent=self._served.agent,
            decision_id=identity,
            exit_code=result.exit_code,
            reason=result.reason,
            net_denied=[each._asdict() for each in result.denied],
            wall_s=result.wall_s,
            cpu_s=result.cpu_s,
            peak_memory_bytes=result.peak_memory_bytes,
        )
        limited = result.reason in ("wall", "memory")
        text = f"the {result.reason} limit ended it" if limited else ""
        return Ended(result.exit_code, 0, text, _used(result))


def _used(result: BoxResult) -> dict[str, Any]:
    """What a caller in Python tells of it."""
    return {
        "reason": result.reason,
        "wall_s": result.wall_s,
        "cpu_s": result.cpu_s,
        "peak_memory_bytes": result.peak_memory_bytes,
        "peak_pids": result.peak_pids,
        "net_denied": [list(each) for each in result.denied],
        "kept": [list(each) for each in result.kept],
    }


def _is_there(plan: BoxPlan, cwd: str) -> bool:
    """Whether a folder may exist in the box: all but what its own empty folders hide."""
    if not cwd.startswith("/"):
        return False
    holding = [mount for mount in plan.mounts if mount.kind in _HOLD]
    around = [mount for mount in holding if lies_in(cwd, (mount.dest,))]
    if around and max(around, key=lambda mount: len(mount.dest)).kind != "tmpfs":
        return True
    return any(lies_in(mount.dest, (cwd,)) for mount in holding)


def _close(descriptors: tuple[int, ...]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
