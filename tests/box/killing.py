"""Run one box and SIGKILL one of its processes, or all, at a milestone of the launch.

A script: ``killing.py PLAN MILESTONE VICTIM WARM -- ARGV``. VICTIM is ``supervisor``, ``warden``,
``bwrap``, ``init`` (the box's pid 1), ``server`` (the fork server), ``tree`` (every process,
this one last) or ``none``. With WARM ``1`` the warden comes from a launcher's fork server.
Ends with the box's exit code, if it lives.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from axonkernel.box import forkserver, launch, milestones
from axonkernel.box.channel import Channel, pair
from axonkernel.box.model import Command, decode_plan
from axonkernel.box.server import Server

SUPERVISOR = os.getpid()


def children(pid: int) -> list[int]:
    """Children of a process, first forked first; [] when it is gone."""
    try:
        words = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return list(map(int, words))


def below(pid: int) -> list[int]:
    found = []
    for child in children(pid):
        found += [child, *below(child)]
    return found


def await_end(pid: int) -> None:
    """Until a killed process is gone; the box's pid 1 is held up by those we trace."""
    deadline = time.monotonic() + 1
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while time.monotonic() < deadline:
            dead = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] in "ZX"
            # Its descriptors are closed with the last of its threads.
            if dead and len(os.listdir(f"/proc/{pid}/task")) == 1:
                return
            time.sleep(0.002)


def named(pid: int, word: bytes) -> bool:
    try:
        return word in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0]
    except OSError:
        return False


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def bwrap(everything: list[int]) -> int:
    """bwrap's outer process, which the warden forks, and which may not have begun yet."""
    found = [pid for pid in everything if named(pid, b"bwrap")]
    return found[0] if found else children(os.getpid())[-1]


def victims(name: str) -> list[int]:
    """The pids behind a name, as seen from any process of ours."""
    everything = below(SUPERVISOR)
    match name:
        case "supervisor":
            return [SUPERVISOR]
        case "server":
            return children(SUPERVISOR)[:1]
        case "bwrap":
            return [bwrap(everything)]
        case "init":
            return children(bwrap(everything))
        case "warden":
            return [parent(bwrap(everything))]
        case "tree":
            mine = os.getpid()
            return [*(pid for pid in (SUPERVISOR, *everything) if pid != mine), mine]
    raise ValueError(name)


def forked_server() -> Server:
    """A fork server that inherits the observer; the real one is a new program."""
    ours, theirs = pair()
    pid = os.fork()
    if pid == 0:
        serve(ours, theirs)
    theirs.close()
    return Server(ours, pid)


def serve(ours: Channel, theirs: Channel) -> NoReturn:
    ours.close()
    os.setsid()
    forkserver.main(theirs.detach())
    os._exit(0)


def main() -> int:
    """Run the box of the command line."""
    file, milestone, victim, warm = sys.argv[1:5]
    plan = decode_plan(json.loads(Path(file).read_text()))

    def kill(name: str) -> None:
        if name == milestone and victim != "none":
            for pid in victims(victim):
                with contextlib.suppress(ProcessLookupError):  # it died with another
                    os.kill(pid, signal.SIGKILL)
                    await_end(pid)

    milestones.observe(kill)
    command = Command(tuple(sys.argv[6:]))
    if warm == "1":
        launch._start_server = forked_server
        launcher = launch.Launcher(plan.limits)
        launcher.get_ready()
        box = launcher.start(plan, command)
    else:
        box = launch.start(launch.fork_warden(), plan, command)
    result = box.wait()
    box.close()
    if warm == "1":
        launcher.close()
    assert result is not None
    return result.exit_code


if __name__ == "__main__":
    sys.exit(main())
