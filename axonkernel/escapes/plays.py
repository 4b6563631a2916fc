"""Attempts that need a hand outside: an editor that saves, a supervisor that dies, a second box.

Each is played twice, with a box around the agent's part and without.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from axonkernel.box.model import BoxPlan
from axonkernel.errors import AxonError, BoxError
from axonkernel.escapes import inside
from axonkernel.escapes.scene import Scene
from axonkernel.escapes.stage import Stage
from axonkernel.escapes.suite import python
from axonkernel.escapes.trial import held, plan_for, unboxed
from axonkernel.policy.model import Limits, Policy

__all__ = ["PLAYS", "Part", "Played", "play", "unplayable"]

#: How long what should be dead is given to write once more.
_QUIET_S = 0.4
_PATIENCE_S = 20.0


class Part:
    """The agent's part of one play, with a box around it or without.

    Arguments:
        stage: where it is played.
        plan: its box; None for the control.
        layers: the policies, for a second box.
        limits: what the box is held to, to be exceeded.

    Attributes:
        told: the places that its boxes have named at their end.
    """

    def __init__(
        self,
        stage: Stage,
        scene: Scene,
        plan: BoxPlan | None,
        layers: Sequence[Policy],
        limits: Limits,
    ) -> None:
        self.stage, self.scene, self.plan, self.limits = stage, scene, plan, limits
        self.told: set[str] = set()
        self._layers = layers

    @contextlib.contextmanager
    def started(self, text: str, *words: str, **streams: Any) -> Iterator[subprocess.Popen[bytes]]:
        """One of the programs of ``inside``, running; ended after the block."""
        argv = (python(), "-ISc", text, str(self.stage.project), *words)
        if self.plan is None:
            with unboxed(argv, self.stage, **streams) as process:
                yield process
        else:
            with held(self.plan, argv, self.stage, **streams) as box:
                yield box.process
                box.process.wait()
            self.told |= {path for _, path in box.kept()}

    def said(self, text: str, *words: str, **streams: Any) -> str:
        """What one of them prints, when it has ended."""
        with self.started(text, *words, **streams) as process:
            out, _ = process.communicate(timeout=_PATIENCE_S)
        return (out or b"").decode("latin-1")

    def beside(self, grant: str) -> Part:
        """The part of a second box, with one more folder to read.

        Raises AxonError where that is refused.
        """
        if self.plan is None:
            return self
        plan = plan_for(self._layers, self.stage, read=(grant,))
        return Part(self.stage, self.scene, plan, self._layers, self.limits)


Play = Callable[[Part], str]


class Played(NamedTuple):
    """One play; the fields are those of an attempt.

    Arguments:
        do: plays it; returns what shows that it succeeded, or "".
        place: what the run names at its end when it could not prevent it.
    """

    id: str
    group: str
    text: str
    meaning: str
    wall: str
    field: str
    do: Play
    ask: str = ""
    place: str = ""


def _beats(part: Part) -> int:
    with contextlib.suppress(OSError):
        return (part.stage.project / "beats").stat().st_size
    return 0


def _await(true: Callable[[], object]) -> None:
    """Wait for the agent's part to begin. Raises BoxError when it does not."""
    deadline = time.monotonic() + _PATIENCE_S
    while not true():
        if time.monotonic() > deadline:
            raise BoxError("program", "the agent's part did not begin")
        time.sleep(0.01)


def _goes_on(part: Part) -> str:
    """Whether something still writes, of what should be dead."""
    time.sleep(0.1)
    before = _beats(part)
    time.sleep(_QUIET_S)
    found = "it goes on" if _beats(part) > before else ""
    if part.plan is None:
        os.kill(int((part.stage.project / "pid").read_text()), signal.SIGKILL)
    return found


def _supervisor_killed(part: Part) -> str:
    with part.started(inside.BEAT_FOR_A_PARENT) as process:
        _await(lambda: _beats(part))
        process.kill()
        process.wait()
        return _goes_on(part)


def _orphan(part: Part) -> str:
    part.said(inside.ORPHAN)
    return _goes_on(part)


def _kill_all(part: Part) -> str:
    said = part.said(inside.KILL_ALL, *(["control"] if part.plan is None else []))
    if part.plan is None:
        return said.strip()
    victim = next(iter(part.scene.victims.values()))
    return "" if _is_alive(victim) else "a process of the host was killed"


def _is_alive(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    return False


def _saved(part: Part) -> str:
    """An editor saves by rename, again and again."""
    with part.started(inside.POLL_DENIED) as process:
        assert process.stdout is not None
        process.stdout.readline()
        path, new = part.stage.project / "denied", part.stage.root / "new"
        for _ in range(40):
            new.write_text(f"{part.stage.token}-saved\n")
            new.chmod(0o666)
            new.rename(path)
            time.sleep(0.02)
        out, _ = process.communicate(timeout=_PATIENCE_S)
    return "a secret came out" if part.stage.token.encode() in out else ""


def _late_socket(part: Part) -> str:
    """A service of the host starts in a write grant."""
    with part.started(inside.CONNECT_LATE) as process, socket.socket(socket.AF_UNIX) as server:
        assert process.stdout is not None
        process.stdout.readline()
        path = str(part.stage.project / "late")
        server.bind(path)
        os.chmod(path, 0o777)
        server.listen()
        server.settimeout(1.3)
        try:
            server.accept()[0].close()
        except TimeoutError:
            return ""
        finally:
            process.communicate(timeout=_PATIENCE_S)
    return "a service was reached"


def _reopened_output(part: Part) -> str:
    """The command's output goes to the end of a file with more in it."""
    log = part.stage.outside / "log"
    log.write_text(f"{part.stage.token}-log\n")
    log.chmod(0o666)
    with open(log, "ab") as file:
        part.said(inside.REOPEN_OUTPUT, stdout=file)
    brought = part.stage.project / "brought"
    with contextlib.suppress(OSError):
        if part.stage.token in brought.read_text():
            return "a secret came out"
    return ""


def _reopened_input(part: Part) -> str:
    """The command's input comes from a file."""
    given = part.stage.outside / "given"
    given.write_text("as it was\n")
    given.chmod(0o666)
    with open(given, "rb") as file:
        part.said(inside.REOPEN_INPUT, stdin=file)
    return "" if given.read_text() == "as it was\n" else "a marker was changed"


def _typed(part: Part) -> str:
    """The command's input is a terminal."""
    import fcntl
    import pty
    import termios

    ours, theirs = pty.openpty()
    try:
        part.said(inside.TYPE, stdin=theirs)
        waiting = fcntl.ioctl(theirs, termios.FIONREAD, bytes(4))
        return "commands were typed" if any(waiting) else ""
    finally:
        os.close(ours)
        os.close(theirs)


def _second_box(part: Part) -> str:
    """A second box is started with a grant that the agent exchanges with a link at that moment."""
    secret = str(part.stage.project / "swap" / "secret")
    with part.started(inside.SWAP, part.scene.outside) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = any(part.stage.token in _read_in_second(part, secret) for _ in range(6))
        process.kill()
    return "a secret came out" if found else ""


def _read_in_second(part: Part, path: str) -> str:
    code = (
        "import sys, contextlib\nfor _ in range(300):\n"
        " with contextlib.suppress(OSError): print(open(sys.argv[2]).read())"
    )
    try:
        return part.beside(os.path.dirname(path)).said(code, path)
    except AxonError:
        return ""  # refused: the grant was a link when it was looked at


def _too_much(text: str, number: Callable[[Limits], int]) -> Play:
    def do(part: Part) -> str:
        words = [str(number(part.limits)), "/tmp" if part.plan else str(part.stage.project)]
        if part.plan is None:
            words.append("control")
        return "more than the limit" if part.said(text, *words).startswith("made") else ""

    return do


_MIB = 1 << 20
PLAYS = (
    Played("kill-all", "processes", "kill() everything that can be", "Processes of the host are "
           "among those that the agent can signal.", "pid namespace", "", _kill_all),
    Played("outlive-supervisor", "processes", "go on when the supervisor is killed", "The agent "
           "works on, and nobody watches.", "death signal", "", _supervisor_killed),
    Played("outlive-box", "processes", "leave a process behind", "The agent works on after its "
           "box has ended.", "pid namespace", "", _orphan),
    Played("read-after-save", "denied files", "read while an editor saves it", "A denied file "
           "that is replaced on the host is read.", "keeper", "fs", _saved, place="denied"),
    Played("second-box", "files outside", "a link in the grant of a second box", "A second box "
           "is led out of its grant while it is made.", "mount namespace", "fs", _second_box,
           "read {outside}/secret"),
    Played("late-socket", "network", "a socket that appears in a grant", "A service of the host "
           "that starts later in a grant is reached.", "keeper", "net", _late_socket, "open net",
           "late"),
    Played("reopen-output", "environment", "reopen standard output to read", "What others wrote "
           "to the file that takes the output is read.", "relayed streams", "", _reopened_output),
    Played("reopen-input", "environment", "reopen standard input to write", "The file that the "
           "input comes from is changed.", "relayed streams", "", _reopened_input),
    Played("type-ahead", "processes", "type into the terminal it was given", "The user's shell "
           "reads commands that the agent typed.", "seccomp filter", "seccomp", _typed),
    Played("too-many-processes", "limits", "more processes than limits.pids", "The agent takes "
           "the machine's processes.", "control group", "limits.pids",
           _too_much(inside.FORK, lambda limits: (limits.pids or 0) + 64)),
    Played("too-much-memory", "limits", "more memory than limits.memory", "The agent takes the "
           "machine's memory.", "control group", "limits.memory",
           _too_much(inside.HOG, lambda limits: (limits.memory_bytes or 0) // _MIB + 64)),
    Played("too-much-disk", "limits", "more in /tmp than limits.disk", "The agent takes the "
           "machine's disk or memory.", "size of /tmp", "limits.disk",
           _too_much(inside.FILL, lambda limits: (limits.disk_bytes or 0) // _MIB + 8)),
)  # fmt: skip
#: More than this is not tried on somebody's machine.
_MOST_PIDS, _MOST_BYTES = 1000, 512 * _MIB


def unplayable(each: Played, limits: Limits) -> str:
    """Why a play about a limit cannot be made; "" when it can, or is about something else."""
    caps = {
        "limits.pids": (limits.pids, _MOST_PIDS),
        "limits.memory": (limits.memory_bytes, _MOST_BYTES),
        "limits.disk": (limits.disk_bytes, _MOST_BYTES),
    }
    cap, most = caps.get(each.field, (1, 1))
    if not cap:
        return f"the policy sets no {each.field}"
    return f"{each.field} is too large to be tried without harm" if cap > most else ""


def play(each: Played, part: Part) -> str | None:
    """What shows that a play succeeded; "" when nothing does, None when it was not played."""
    for name in ("beats", "brought"):
        with contextlib.suppress(OSError):
            (part.stage.project / name).unlink()
    try:
        return each.do(part)
    except (BoxError, subprocess.TimeoutExpired):
        return None
