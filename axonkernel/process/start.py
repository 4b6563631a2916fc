"""One function for all program starts: whatever judged a call, its program starts here.

A program that is to run somewhere else (in a sibling box, behind the supervisor) is a new
branch of :func:`start_program` and nothing else.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from attrs import field, frozen

from axonkernel.box.model import NetPlan, Refusal
from axonkernel.policy.model import Policy
from axonkernel.process.lookup import Located
from axonkernel.process.result import Usage

if TYPE_CHECKING:
    from axonkernel.drops import Drops

__all__ = ["Ending", "Place", "Running", "Start", "needs_box", "start_program"]


@frozen
class Start:
    """A judged call, exactly as it will run.

    Arguments:
        argv: its words as they were judged.
        program: the file that was judged.
        cwd: absolute working directory.
        env: variables the caller sets, already judged.
        without_env: names, or prefixes and ``*``, that must not reach the program, whatever
            else says so.
        stays: whether it may leave processes running when it ends.
        channel: a socket for the program, whose last word is then its number there: 3, or
            another that a plain program is told; -1 for none.
        withdrawn: whether nobody waits for it any more; None never asks.
    """

    argv: tuple[str, ...]
    program: Located
    cwd: str
    env: Mapping[str, str] = field(factory=dict)
    without_env: tuple[str, ...] = ()
    stays: bool = False
    channel: int = -1
    withdrawn: Callable[[], bool] | None = None

    def wanted(self, env: Mapping[str, str]) -> dict[str, str]:
        """``env`` less what must not reach the program."""
        return {
            name: value
            for name, value in env.items()
            if not any(
                name.startswith(each[:-1]) if each.endswith("*") else name == each
                for each in self.without_env
            )
        }


@frozen
class Ending:
    """How a running program ended, whatever it ran in.

    Arguments:
        limit: the limit that ended it: ``wall``, ``memory`` or "".
        peak: the most that was seen of what is limited, in its own unit.
        message: for exit codes 126 and 127, what is missing.
        background: whether other processes of the call had to be ended.
        refused_pids: how often no process was made because of ``limits.pids``.
        kept: what the keeper of its box did and saw (BoxResult.kept).
    """

    exit_code: int
    limit: str = ""
    peak: float | None = None
    message: str = ""
    background: bool = False
    net_denied: tuple[Refusal, ...] = ()
    refused_pids: int = 0
    used: Usage = field(factory=Usage)
    kept: tuple[tuple[str, str], ...] = ()


class Running(Protocol):
    """A started program. ``end`` is called once, ``kill`` at any time from any thread.

    Arguments:
        held_by: the declared fields that something below the mediator holds.
        walls: what does: ``box``, ``landlock``, ``broker``.
        env_dropped: names of variables that it did not get.
    """

    @property
    def pid(self) -> int:
        """The program, in the pid namespace of this process."""
        ...

    held_by: tuple[str, ...]
    walls: tuple[str, ...]
    env_dropped: tuple[str, ...]

    def fileno(self) -> int:
        """A descriptor that is readable when there is news for :meth:`ended`; -1 for none."""
        ...

    def ended(self) -> bool:
        """Whether the program itself has ended; does not block."""
        ...

    def wait(self) -> None:
        """Block until the program itself has ended."""
        ...

    def end(self) -> Ending:
        """Clean up behind an ended program and tell how it ended."""
        ...

    def kill(self) -> None:
        """End the program and everything it started."""
        ...


@frozen
class Terms:
    """How a program is confined where it stands.

    Arguments:
        walls: what it gives up (rooms.Walls); None where this kernel of the OS can do nothing.
        env: its environment.
        env_dropped: names of variables that it does not get.
        held_by: the declared fields that the walls hold.
        names: paths that the walls are about, for as long as they are the same files.
    """

    walls: Any
    env: tuple[tuple[str, str], ...] = ()
    env_dropped: tuple[str, ...] = ()
    held_by: tuple[str, ...] = ()
    names: tuple[str, ...] = ()


@frozen
class Place:
    """Where programs of one kernel run.

    Arguments:
        policy: what holds for this call, all layers met.
        launcher: starts boxes; None makes no boxes.
        environ: the environment programs are given from.
        path: folders where they look for other programs; () leaves PATH as it is.
        confiner: without boxes, what starts programs so that nothing of them stays
            (confiner.Confiner); None starts them plainly.
        confined: it has them give up what they can, too.
        terms: how, in a box; None where there is none around.
        around: the declared fields that a box around this process holds for them; () outside.
        narrowed: the policy of a narrowed request, as data: its programs get boxes of their own
            from the supervisor of this box; None where they do not.
        drops: makes what takes the refusals of a box, from its network; None for nothing.
        brokered: files of the programs that only the supervisor of this box may start.
    """

    policy: Policy
    launcher: Any
    environ: Mapping[str, str] = field(factory=lambda: dict(os.environ))
    path: tuple[str, ...] = ()
    confiner: Any = None
    confined: bool = False
    terms: Callable[[Start, Place], Terms] | None = None
    around: tuple[str, ...] = ()
    drops: Callable[[NetPlan | None], Drops] | None = None
    brokered: tuple[str, ...] = ()
    narrowed: Mapping[str, Any] | None = None


def needs_box(policy: Policy, *, inside: bool) -> bool:
    """Whether each program gets a box of its own.

    Inside a box programs run beside the agent: the box is already around them.
    """
    if inside or policy.effective_isolation == "none":
        return False
    if policy.effective_isolation == "best-effort":
        from axonkernel.box.prepare import without_box

        return not without_box(policy)
    return sys.platform == "linux" or policy.effective_isolation == "strict"


def start_program(start: Start, place: Place, *, stdin: int, stdout: int, stderr: int) -> Running:
    """Start one program with the given descriptors.

    Raises:
        IsolationUnavailable: a declared field has no wall here and isolation is not
            ``best-effort``.
        BoxError: the box could not be built; nothing ran.
        PolicyDenied: only the supervisor may start it, and refused.
        OSError: without a box, the program could not be executed.
    """
    if place.narrowed is not None or start.program.file in place.brokered:
        from axonkernel.process.brokered import start_brokered

        return start_brokered(start, place, stdin, stdout, stderr)
    if place.launcher is not None:
        from axonkernel.process.boxed import start_boxed

        return start_boxed(start, place, stdin, stdout, stderr)
    if place.confiner is not None:
        from axonkernel.process.confined import start_confined

        return start_confined(start, place, stdin, stdout, stderr)
    from axonkernel.process.plain import start_plain

    return start_plain(start, place, stdin, stdout, stderr)
