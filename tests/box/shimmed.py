"""A supervisor that is only a listener, and real shims that call it.

::

    with Shimmed(tmp_path, answer) as shimmed:
        run = shimmed.run(["git", "status"])

Programs run beside the tests, not in boxes: :class:`Started` stands in for a box.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from axonkernel.box import shim
from axonkernel.box.model import BoxResult
from axonkernel.broker.listener import Incoming, Listener
from axonkernel.broker.wire import Ended, Refused
from lab.processes import find_program

__all__ = ["WAITS_S", "Shimmed", "Started", "runs", "until"]

WAITS_S = 30.0


def until(holds: Callable[[], Any]) -> None:
    """Wait until something holds."""
    end_s = time.monotonic() + WAITS_S
    while not holds():
        assert time.monotonic() < end_s, "it never came"
        time.sleep(0.01)


class Started:
    """A process as :class:`axonkernel.box.launch.BoxProcess` shows a box.

    Arguments:
        argv: what runs, whatever was called.
    """

    def __init__(self, incoming: Incoming, argv: Sequence[str] | None = None) -> None:
        zero, one, two = incoming.files
        self.process = subprocess.Popen(
            argv or incoming.argv,
            stdin=zero,
            stdout=one,
            stderr=two,
            cwd=incoming.cwd,
            env=dict(incoming.env),
            start_new_session=True,
        )
        self.pid = self.process.pid
        self._pidfd = os.pidfd_open(self.pid)
        self.result: BoxResult | None = None

    def fileno(self) -> int:
        return self._pidfd

    def wait(self, timeout_s: float | None = None) -> BoxResult | None:
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        os.close(self._pidfd)
        self.result = BoxResult(code if code >= 0 else 128 - code)
        return self.result

    def signal(self, number: int, grace_s: float | None = None) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)


def runs(incoming: Incoming, argv: Sequence[str] | None = None) -> Ended:
    """An answer: yes to everything."""
    box: Any = Started(incoming, argv)
    return Ended(incoming.follow(box).exit_code)


class Shimmed:
    """A listener at the place where shims look for it, and folders with shims in them.

    Arguments:
        names: of the programs that are shims.
        program: what lies at these names.
    """

    def __init__(
        self,
        root: Path,
        answer: Callable[[Incoming], Refused | Ended],
        names: Sequence[str] = ("prog",),
        program: str | None = None,
        **settings: Any,
    ) -> None:
        self.folder = root / "broker"
        self.bin = root / "bin"
        self.work = root / "work"
        for folder in (self.folder, self.bin, self.work):
            folder.mkdir()
        for name in names:
            (self.bin / name).write_bytes(Path(program or shim.path()).read_bytes())
            (self.bin / name).chmod(0o755)
        self.listener = Listener(self.folder / "socket", answer, **settings)

    def __enter__(self) -> Shimmed:
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.close()

    def wrapped(self, argv: Sequence[Any], *options: str) -> list[Any]:
        """``argv`` where the socket is at its place, and nothing else is walled."""
        program = find_program("bwrap", "bubblewrap")
        mounts = ["--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--tmpfs", "/run"]
        mounts += ["--bind", str(self.folder), "/run/axonkernel/broker"]
        return [program, *mounts, *options, *argv]

    def run(self, argv: Sequence[Any], **settings: Any) -> subprocess.CompletedProcess[bytes]:
        """Run a command; the first word may be the name of a shim."""
        words = [str(self.bin / argv[0]) if (self.bin / argv[0]).exists() else argv[0], *argv[1:]]
        options: dict[str, Any] = {"capture_output": True, "timeout": 60, "cwd": self.work}
        return subprocess.run(self.wrapped(words), **options | settings)
