"""An ordinary user for tests that run as root: some uid, a home of its own, no privilege."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from lab import processes
from lab.processes import REPOSITORY, LabUnavailable

__all__ = ["NOBODY_IN_PASSWD", "OrdinaryUser"]

#: A uid that no passwd file has.
NOBODY_IN_PASSWD = 12345
Result = TypeVar("Result")


class OrdinaryUser:
    """Runs commands and functions as a uid without privilege, for the ``with`` block.

    Started by an ordinary user, it is that user with a fresh home.

    Arguments:
        uid: whom to become when root; needs no entry in passwd.
    """

    def __init__(self, uid: int = NOBODY_IN_PASSWD) -> None:
        self.root = os.geteuid() == 0
        self.uid = uid if self.root else os.geteuid()
        self.home = Path("/nonexistent")

    def __enter__(self) -> Self:
        # Not in tmp_path: pytest closes its folders to other users.
        self._folder = tempfile.mkdtemp(prefix="axon-user-")
        os.chmod(self._folder, 0o711)
        self.home = Path(self._folder, "home")
        self.home.mkdir(mode=0o700)
        if self.root:
            os.chown(self.home, self.uid, self.uid)
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder)

    def demand_checkout(self) -> None:
        """Raise LabUnavailable when this user cannot read the checkout and run Python."""
        for path in (REPOSITORY / "axonkernel" / "errors.py", Path(sys.executable)):
            done = self.run(["test", "-r", path])
            if done.returncode:
                raise LabUnavailable(
                    f"uid {self.uid} cannot read {path} (clone where other users may read)"
                )

    def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        input: str | None = None,
        timeout_s: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command as the user; arguments and result as in ``SystemdLab.run``."""
        process = self.popen(
            argv,
            env=env,
            cwd=cwd,
            **processes.piped(input),
        )
        return processes.finish(process, argv, input, timeout_s)

    def popen(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        **options: Any,
    ) -> subprocess.Popen[Any]:
        """Start a command as the user; its pid is the command's own."""
        floor = {"PATH": processes.PATH, "HOME": str(self.home), "LANG": "C.UTF-8"}
        command = processes.entering(
            argv,
            uid=self.uid if self.root else 0,
            cwd=str(cwd or self.home),
            env=floor | dict(env or {}),
        )
        return processes.start(command, **options)

    def call(
        self, function: Callable[..., Result], *arguments: Any, timeout_s: float = 60.0
    ) -> Result:
        """The result (or the exception) of a function called in a forked child as the user."""
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            self._answer(write, function, arguments)
        os.close(write)
        killer = threading.Timer(timeout_s, processes.kill_tree, [child])
        killer.start()
        try:
            with open(read, "rb") as pipe:
                answer = pipe.read()
        finally:
            killer.cancel()
            os.waitpid(child, 0)
        if not answer:
            raise TimeoutError(f"{function!r} was killed or ended its process")
        ok, value = pickle.loads(answer)
        if not ok:
            raise value
        return value  # type: ignore[no-any-return]

    def _answer(self, write: int, function: Callable[..., Any], arguments: Any) -> None:
        try:
            if self.root:
                os.setgroups([])
                os.setresgid(self.uid, self.uid, self.uid)
                os.setresuid(self.uid, self.uid, self.uid)
            os.environ["HOME"] = str(self.home)
            os.chdir(self.home)
            answer = (True, function(*arguments))
        except BaseException as error:
            answer = (False, error)
        try:
            with open(write, "wb") as pipe:
                pipe.write(pickle.dumps(answer))
        finally:
            os._exit(0)
