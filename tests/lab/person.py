"""A person at a terminal: types, waits for what appears, looks at the terminal's settings.

::

    with Person(command_line("--read", ".", command=["bash"]), cwd=project, env=env) as person:
        person.wait_for("$ ")
        person.type("exit 3\\n")
        assert person.ended() == 3
"""

from __future__ import annotations

import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lab import processes

__all__ = ["Person"]

#: Take the terminal named first as the controlling one, then become the command.
_ON_TERMINAL = """
import fcntl, os, sys, termios
fd = os.open(sys.argv[1], os.O_RDWR)
fcntl.ioctl(fd, termios.TIOCSCTTY, 0)
os.close(fd)
os.execvp(sys.argv[2], sys.argv[2:])
"""


class Person:
    """One command on a pseudo-terminal of its own.

    Arguments:
        streams: what is given in place of the terminal as stdin, stdout or stderr.

    Attributes:
        seen: what has appeared on the terminal.
        process: the command.
        slave: the terminal.
        before: its settings at the start.
    """

    def __init__(
        self, argv: Sequence[Any], *, cwd: Path, env: Mapping[str, str], **streams: Any
    ) -> None:
        self.seen = ""
        self._master, self.slave = pty.openpty()
        termios.tcsetwinsize(self.slave, (33, 101))
        terminal = dict.fromkeys(("stdin", "stdout", "stderr"), self.slave)
        self.before = self.settings()
        self.process: subprocess.Popen[bytes] = processes.start(
            [sys.executable, "-ISc", _ON_TERMINAL, os.ttyname(self.slave), *argv],
            cwd=cwd,
            env={**env, "TERM": "dumb"},
            **{**terminal, **streams},
        )

    def __enter__(self) -> Person:
        return self

    def __exit__(self, *_: object) -> None:
        processes.kill_tree(self.process.pid)
        with self.process:
            pass
        os.close(self.slave)
        os.close(self._master)

    def settings(self) -> list[Any]:
        """The terminal's own, as they are now."""
        return termios.tcgetattr(self.slave)

    def set(self, settings: list[Any]) -> None:
        """Change them, as another program would."""
        termios.tcsetattr(self.slave, termios.TCSANOW, settings)

    def resize(self, rows: int, columns: int) -> None:
        """Drag the corner of the window."""
        termios.tcsetwinsize(self._master, (rows, columns))

    def type(self, text: str) -> None:
        """Press keys."""
        os.write(self._master, text.encode())

    def wait_for(self, text: str, *, timeout_s: float = 20.0) -> None:
        """Wait until ``text`` has appeared."""
        deadline_s = time.monotonic() + timeout_s
        while text not in self.seen:
            left_s = deadline_s - time.monotonic()
            assert left_s > 0, f"{text!r} is not in {self.seen!r}"
            self._look(left_s)

    def wait_for_count(self, text: str, count: int) -> None:
        """Wait until ``text`` has appeared ``count`` times."""
        deadline_s = time.monotonic() + 20.0
        while self.seen.count(text) < count:
            assert time.monotonic() < deadline_s, f"{text!r} is not {count} times in {self.seen!r}"
            self._look(0.1)

    def ended(self, timeout_s: float = 20.0) -> int:
        """The command's exit code; all it wrote has been seen."""
        deadline_s = time.monotonic() + timeout_s
        while self.process.poll() is None:
            assert time.monotonic() < deadline_s, self.seen
            self._look(0.05)
        while self._look(0):
            pass
        return self.process.returncode

    def _look(self, timeout_s: float) -> bool:
        if not select.select([self._master], [], [], timeout_s)[0]:
            return False
        self.seen += os.read(self._master, 65536).decode(errors="replace")
        return True
