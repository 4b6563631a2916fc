"""An agent in a project of its own, run as its user runs it: ``python agent.py`` and the rest.

::

    project = Project(tmp_path)
    project.agent({"fs": {"read": ["./src"]}}, "return errno_of(open, '/etc/shadow')")
    assert project.run_agent().value == "ENOENT"

The body of the handler is given as text; it sees ``kernel`` and ``request`` and what
:data:`PRELUDE` brings. What it returns is JSON data.
"""

from __future__ import annotations

import json
import os
import pty
import select
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab import processes
from lab.processes import REPOSITORY

__all__ = ["Ended", "Project", "TerminalRun"]

#: What every handler may use.
PRELUDE = """\
import asyncio, ctypes, errno, json, os, socket, subprocess, sys, time
from typing import Annotated
from axonkernel import *


def errno_of(call, *args):
    try:
        call(*args)
    except OSError as error:
        return errno.errorcode.get(error.errno, type(error).__name__)
    return "ok"


async def code_of(call):
    try:
        await call
    except PolicyDenied as error:
        return error.code
    return "ok"


"""
RUN = "\n\nif __name__ == '__main__':\n    agent.run()\n"
#: Take the terminal on standard input as the controlling one, then become the command.
ON_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""

Runner = Callable[..., subprocess.CompletedProcess[str]]


class Ended:
    """A run that has ended.

    Attributes:
        code: its exit code.
        out, err: what it wrote.
    """

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.code, self.out, self.err = done.returncode, done.stdout, done.stderr

    @property
    def value(self) -> Any:
        """What the handler returned, the last line on stdout."""
        assert self.code == 0, self.err
        return json.loads(self.out.splitlines()[-1])

    @property
    def posture(self) -> dict[str, str]:
        """State of each field, from the line that announces it."""
        line = next(x for x in self.err.splitlines() if x.startswith("axonkernel: ") and ": " in x)
        states: dict[str, str] = {}
        for part in line.removeprefix("axonkernel: ").split("; "):
            state, _, fields = part.partition(": ")
            states |= dict.fromkeys(fields.split(", "), state)
        return states


class Project:
    """A folder with an agent in it, and a home with the user's state beside it.

    Arguments:
        home: an empty folder, made when it is not there.
        run: what runs commands: None for this machine, or ``lab.run``, ``internet.run``.
        write: what writes files, where that is not this machine.
    """

    def __init__(
        self,
        home: Path,
        run: Runner | None = None,
        write: Callable[[Path, str], object] | None = None,
    ) -> None:
        self.home = home
        self.folder = home / "project"
        self._run = run or run_here
        self._write = write or write_here
        self.env = {
            "HOME": str(home),
            "PATH": processes.PATH,
            "LANG": "C.UTF-8",
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_CACHE_HOME": str(home / "cache"),
            "XDG_CONFIG_HOME": str(home / "config"),
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def write(self, name: str, text: str) -> Path:
        """A file of the project."""
        path = self.folder / name
        self._write(path, text)
        return path

    def agent(
        self,
        policy: Mapping[str, Any] | None,
        body: str,
        *,
        before: str = "",
        name: str = "agent.py",
        end: str = RUN,
    ) -> Path:
        """Write an agent whose handler has ``body``; ``before`` it stand its tools."""
        text = PRELUDE + f"agent = define_agent(name='probe', policy={policy!r})\n"
        text += textwrap.dedent(before)
        text += "\n@agent.handler\nasync def handle(kernel, request):\n"
        return self.write(name, text + textwrap.indent(textwrap.dedent(body), "    ") + end)

    def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        timeout_s: float = 60.0,
    ) -> Ended:
        """Run a command in the project's folder, without a terminal."""
        env = self.env | dict(env or {})
        return Ended(self._run(argv, cwd=self.folder, env=env, timeout_s=timeout_s))

    def run_agent(self, *words: str, env: Mapping[str, str] | None = None) -> Ended:
        """``python agent.py WORDS``."""
        return self.run([sys.executable, "agent.py", *words], env=env)

    def axonkernel(self, *words: str, env: Mapping[str, str] | None = None) -> Ended:
        """``axonkernel WORDS``."""
        return self.run([sys.executable, "-m", "axonkernel", *words], env=env)

    def records(self) -> list[dict[str, Any]]:
        """The audit log on this machine, oldest first."""
        path = self.home / "state" / "axonkernel" / "audit.jsonl"
        if not path.exists():
            return []
        return [json.loads(line) for line in path.read_text().splitlines()]

    @contextmanager
    def on_terminal(
        self, *words: str, env: Mapping[str, str] | None = None
    ) -> Iterator[TerminalRun]:
        """``python WORDS`` with a person at its terminal."""
        run = TerminalRun([sys.executable, *words], self.folder, self.env | dict(env or {}))
        try:
            yield run
        finally:
            run.close()


class TerminalRun:
    """A command on a pseudo-terminal; its standard output and error are pipes.

    Attributes:
        seen: what has appeared on the terminal, the echo of what was typed included.
    """

    def __init__(self, argv: Sequence[str], cwd: Path, env: Mapping[str, str]) -> None:
        self.seen = ""
        self._master, slave = pty.openpty()
        self._process: subprocess.Popen[str] = processes.start(
            [sys.executable, "-ISc", ON_TERMINAL, *argv],
            stdin=slave,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd,
            env=dict(env),
            text=True,
        )
        os.close(slave)

    def wait_for(self, text: str, *, count: int = 1, timeout_s: float = 15.0) -> None:
        """Wait until ``text`` has appeared on the terminal ``count`` times."""
        deadline = time.monotonic() + timeout_s
        while self.seen.count(text) < count:
            left_s = deadline - time.monotonic()
            assert left_s > 0, f"{text!r} is not in {self.seen!r}"
            if select.select([self._master], [], [], left_s)[0]:
                self.seen += os.read(self._master, 65536).decode()

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def ended(self, timeout_s: float = 30.0) -> Ended:
        """The end of the run."""
        return Ended(processes.finish(self._process, [], None, timeout_s))

    def close(self) -> None:
        """End what still runs."""
        processes.kill_tree(self._process.pid)
        with self._process:
            pass
        os.close(self._master)


def run_here(
    argv: Sequence[str | os.PathLike[str]],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout_s: float = 60.0,
) -> subprocess.CompletedProcess[str]:
    """Run a command on this machine in a session of its own, with nothing on stdin."""
    child = processes.start(
        argv,
        cwd=cwd,
        env=dict(env),
        text=True,
        errors="replace",
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    return processes.finish(child, argv, None, timeout_s)


def write_here(path: Path, text: str) -> None:
    """Write a file on this machine, and the folders it needs."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
