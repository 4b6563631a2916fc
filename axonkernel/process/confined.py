"""A program where no box can be made, with all given up that a process can give up."""

from __future__ import annotations

import os
import subprocess
from contextlib import suppress

from axonkernel.folders import own_folders
from axonkernel.process.boxed import dropped, environment
from axonkernel.process.plain import Plain, start_plain
from axonkernel.process.start import Ending, Place, Start

__all__ = ["start_confined"]


def start_confined(start: Start, place: Place, stdin: int, stdout: int, stderr: int) -> Plain:
    """Start ``start`` confined; plainly where the kernel has no means for that.

    Raises OSError when the working directory cannot be entered.
    """
    from axonkernel.box import bare, confine
    from axonkernel.box.host import Ask
    from axonkernel.box.model import Command
    from axonkernel.box.prepare import create, prepare

    assert start.program.file is not None
    ask = Ask("call", start.cwd, start.program.name, state=own_folders())
    plan = prepare(place.policy, ask, env=place.environ)
    if not plan.mounts:
        return start_plain(start, place, stdin, stdout, stderr)
    create(plan)
    scratch = bare.make_scratch(plan)
    words = (start.program.file, *start.argv[1:])
    command = Command(words, env=environment(start, plan), cwd=start.cwd)
    argv, fd = confine.command_line(plan, command, scratch, stays=start.stays, dies=False)
    try:
        child = subprocess.Popen(
            argv,
            cwd=start.cwd,
            env={},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=True,
            pass_fds=(fd,),
        )
    except BaseException:
        bare.remove_scratch(scratch)
        raise
    finally:
        os.close(fd)
    held = tuple(row.field for row in plan.posture if row.state == "enforced")
    return _Confined(child, start.stays, dropped(place, plan), held, scratch)


class _Confined(Plain):
    """A confined program, and the folder it has for itself."""

    def __init__(
        self,
        child: subprocess.Popen[bytes],
        stays: bool,
        env_dropped: tuple[str, ...],
        held_by: tuple[str, ...],
        scratch: str,
    ) -> None:
        super().__init__(child, stays, env_dropped)
        self.held_by = held_by
        self._scratch = scratch

    def kill(self) -> None:
        """End the program and everything it started, by its guard."""
        from axonkernel.box.guard import END

        if self._child.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, END)

    def end(self) -> Ending:
        """See :meth:`Plain.end`; its folder goes with it."""
        from axonkernel.box.bare import remove_scratch

        ending = super().end()
        remove_scratch(self._scratch)
        return ending
