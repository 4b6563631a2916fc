"""A program in a box of its own, for one call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from axonkernel.errors import BoxError
from axonkernel.folders import own_folders
from axonkernel.policy.environ import QUIET
from axonkernel.process.result import Usage
from axonkernel.process.start import Ending, Place, Start

if TYPE_CHECKING:
    from axonkernel.box.model import BoxPlan, BoxResult
    from axonkernel.drops import Drops

__all__ = ["Boxed", "dropped", "environment", "start_boxed"]

#: Stages at which only the program is at fault, with the exit codes of env(1).
_PROGRAM_STAGES = {"program": 127, "program-mode": 126}


def start_boxed(start: Start, place: Place, stdin: int, stdout: int, stderr: int) -> Boxed:
    """Start ``start`` in a new box.

    Raises IsolationUnavailable or BoxError; nothing ran then.
    """
    from axonkernel.box.host import Ask
    from axonkernel.box.model import Command
    from axonkernel.box.prepare import create, prepare

    ask = Ask("call", start.cwd, start.program.name, state=own_folders())
    plan = prepare(place.policy, ask, env=place.environ)
    create(plan)
    words = (start.program.name, *start.argv[1:])
    env = environment(start, plan)
    command = Command(words, stdin, stdout, stderr, env=env, channel=start.channel)
    drops = place.drops(plan.net) if place.drops is not None else None
    heard = None if drops is None else drops.heard
    process = place.launcher.start(plan, command, heard=heard)
    return Boxed(process, plan, dropped(place, plan), drops)


def environment(start: Start, plan: BoxPlan) -> tuple[tuple[str, str], ...]:
    """What the program of a call gets: the plan's, and what the caller set."""
    return tuple(start.wanted({**QUIET, **dict(plan.env), **start.env}).items())


def dropped(place: Place, plan: BoxPlan) -> tuple[str, ...]:
    """The names of variables that the policy kept out."""
    if place.policy.env is None:
        return ()
    return tuple(sorted(place.environ.keys() - dict(plan.env).keys()))


class Boxed:
    """A program in its box. See :class:`axonkernel.process.start.Running`."""

    walls: tuple[str, ...] = ("box",)

    def __init__(
        self,
        process: Any,
        plan: BoxPlan,
        env_dropped: tuple[str, ...],
        drops: Drops | None = None,
    ) -> None:
        self._drops = drops
        self.pid: int = process.pid
        self.env_dropped = env_dropped
        self.held_by = tuple(row.field for row in plan.posture if row.state == "enforced")
        self._process = process

    def fileno(self) -> int:
        """Readable when there is news for :meth:`ended`."""
        return int(self._process.fileno())

    def ended(self) -> bool:
        """Whether the box has ended, and with it everything in it."""
        return self._process.wait(0) is not None

    def wait(self) -> None:
        """Block until the box has ended: with the program, everything in it is dead."""
        self._process.wait()

    def end(self) -> Ending:
        """How the box ended. Raises BoxError when it never ran the program, AuditError when what
        it was refused cannot be recorded."""
        result: BoxResult = self._process.wait()
        self._process.close()
        if self._drops is not None:
            self._drops.ended(result)
        if result.reason == "launch":
            code = _PROGRAM_STAGES.get(result.stage)
            if code is None:
                raise BoxError(result.stage, result.message)
            return Ending(code, message=result.message)
        if result.reason == "keeper":
            from axonkernel.box.remarks import KEEPER_GONE

            raise BoxError("keeper", KEEPER_GONE)
        limit, peak = _limit(result)
        return Ending(
            result.exit_code,
            limit,
            peak,
            net_denied=result.denied,
            refused_pids=result.refused_pids,
            used=_used(result),
            kept=result.kept,
        )

    def kill(self) -> None:
        """End every process of the box."""
        self._process.kill()


def _used(result: BoxResult) -> Usage:
    return Usage(
        result.reason,
        result.wall_s,
        result.cpu_s,
        result.peak_memory_bytes,
        result.peak_pids,
    )


def _limit(result: BoxResult) -> tuple[str, float | None]:
    if result.reason == "wall":
        return "wall", result.wall_s
    if result.reason == "memory":
        return "memory", result.peak_memory_bytes
    return "", None
