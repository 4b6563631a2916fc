"""One call that was let through: its program in a box of its own, from start to record."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from axonkernel.audit import AuditSink
from axonkernel.box.model import BoxPlan, BoxResult, Command
from axonkernel.box.protections import lies_in
from axonkernel.broker.incoming import Incoming
from axonkernel.broker.judge import Judge
from axonkernel.broker.wire import LOST, Ended, Refused
from axonkernel.drops import Asking, Drops
from axonkernel.errors import AxonError, BoxError, PolicyDenied

if TYPE_CHECKING:
    from axonkernel.box.launch import Launcher

__all__ = ["DID_NOT_RUN", "Runner", "is_there"]

DID_NOT_RUN = "The call did not run."
#: Mounts that hold folders.
_HOLD = ("bind", "ro-bind", "tmpfs", "lent")


class Runner:
    """Runs what was let through.

    Arguments:
        launcher: starts the boxes.
        judge: takes questions about the network to a person.
        agent: for records.
    """

    def __init__(self, launcher: Launcher, judge: Judge, audit: AuditSink, agent: str) -> None:
        self._launcher = launcher
        self._judge = judge
        self._audit = audit
        self._agent = agent

    def run(
        self, incoming: Incoming, plan: BoxPlan, command: Command, identity: str
    ) -> Refused | Ended:
        """Run ``command`` to its end; what it was lent is closed."""
        drops = self._drops(plan, identity)
        try:
            try:
                box = self._launcher.start(plan, command, heard=drops.heard)
            finally:
                for descriptor in command.lent:
                    os.close(descriptor)
            try:
                result = incoming.follow(box)
                drops.ended(result)
            finally:
                box.close()
        except AxonError as error:
            return self.failed(identity, error)
        return self._ended(identity, plan, result)

    def failed(self, identity: str, error: AxonError) -> Refused:
        """Nothing ran; why is for the operator. Raises PolicyDenied, which is an answer."""
        if isinstance(error, PolicyDenied):
            raise error
        told = Refused(LOST, f"no box could be made for the program. {DID_NOT_RUN}")
        if not self._judge.may_record(str(error)):
            return told
        self._audit.record(
            "process.failed",
            source="broker",
            agent=self._agent,
            decision_id=identity,
            error=type(error).__name__,
            message=str(error),
        )
        return told

    def _drops(self, plan: BoxPlan, identity: str) -> Drops:
        """What takes the refusals of the box of one call."""
        asking = Asking(self._judge.ask)
        fields = {"source": "broker", "decision_id": identity}
        return Drops(self._audit, self._agent, plan.net, asking, **fields)

    def _ended(self, identity: str, plan: BoxPlan, result: BoxResult) -> Refused | Ended:
        if result.reason == "launch":
            if result.exit_code in (126, 127):
                return Refused(result.exit_code, result.message)
            return self.failed(identity, BoxError(result.stage, result.message))
        self._audit.record(
            "process.ended",
            source="broker",
            agent=self._agent,
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
        return Ended(result.exit_code, 0, text, _told(plan, result))


def _told(plan: BoxPlan, result: BoxResult) -> dict[str, Any]:
    """What a caller in Python tells of it."""
    return {
        "reason": result.reason,
        "wall_s": result.wall_s,
        "cpu_s": result.cpu_s,
        "peak_memory_bytes": result.peak_memory_bytes,
        "peak_pids": result.peak_pids,
        "net_denied": [list(each) for each in result.denied],
        "kept": [list(each) for each in result.kept],
        "held_by": [row.field for row in plan.posture if row.state == "enforced"],
    }


def is_there(plan: BoxPlan, cwd: str) -> bool:
    """Whether a folder may exist in the box: all but what its own empty folders hide."""
    if not cwd.startswith("/"):
        return False
    holding = [mount for mount in plan.mounts if mount.kind in _HOLD]
    around = [mount for mount in holding if lies_in(cwd, (mount.dest,))]
    if around and max(around, key=lambda mount: len(mount.dest)).kind != "tmpfs":
        return True
    return any(lies_in(mount.dest, (cwd,)) for mount in holding)
