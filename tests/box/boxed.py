"""Run commands through ``axonkernel exec`` and tell what became of them.

::

    box = Boxed(tmp_path, cache)
    run = box.exec("--read", ".", command=["cat", "a.txt"])
    assert (run.code, run.out) == (0, b"text")
    answers = box.attempts(["read", "a.txt"], ["write", "b.txt", "x"], grants=["--read", "."])
    assert answers == ["text", "EROFS"]
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lab.processes import PATH, REPOSITORY, kill_tree

__all__ = ["INSIDE", "PYTHON", "Boxed", "Run", "attempts_command", "command_line"]

#: The distribution's own Python: its whole tree is known to the box.
PYTHON = "/usr/bin/python3"
INSIDE = Path(__file__).with_name("inside.py").read_text()
TIMEOUT_S = 60.0


class Run(NamedTuple):
    """One run of ``axonkernel exec``: exit code, output, messages, the JSON status line."""

    code: int
    out: bytes
    err: str
    status: dict[str, Any]

    @property
    def text(self) -> str:
        """Output as text."""
        return self.out.decode(errors="surrogateescape")


class Boxed:
    """A project folder, and ``axonkernel exec`` run from it with a small environment.

    Arguments:
        root: an empty folder; the project, the state and the home are made in it.
        cache: where probes and plans are kept, outside every project.
    """

    def __init__(self, root: Path, cache: Path) -> None:
        self.root = root
        self.prefix: Sequence[str] = ()
        self.project = root / "project"
        self.home = root / "home"
        for folder in (self.project, self.home, root / "state"):
            folder.mkdir(exist_ok=True)
        self.env = {
            "PATH": PATH,
            "HOME": str(self.home),
            "LANG": "C.UTF-8",
            "PYTHONPATH": str(REPOSITORY),
            "PYTHONDONTWRITEBYTECODE": "1",
            "XDG_CACHE_HOME": str(cache),
            "XDG_STATE_HOME": str(root / "state"),
            "XDG_CONFIG_HOME": str(root / "config"),
        }

    def exec(
        self,
        *options: str | os.PathLike[str],
        command: Sequence[str | bytes | os.PathLike[str]],
        cwd: str | bytes | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
        input: bytes = b"",
        timeout_s: float = TIMEOUT_S,
        pass_fds: Sequence[int] = (),
        prefix: Sequence[str] | None = None,
    ) -> Run:
        """Run a command in a box with ``options`` as grants, to its end.

        Arguments:
            env: added to the supervisor's environment.
            pass_fds: descriptors the supervisor inherits as well.
            prefix: words in front, such as ``nsenter ...``; ``self.prefix`` when None.

        Raises subprocess.TimeoutExpired; everything started is killed then.
        """
        read, write = os.pipe()
        argv = command_line(*options, "--json-status", str(write), command=command)
        process = subprocess.Popen(
            [*(self.prefix if prefix is None else prefix), *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=cwd or self.project,
            env=self.env | dict(env or {}),
            pass_fds=(write, *pass_fds),
            start_new_session=True,
        )
        os.close(write)
        with process, open(read, "rb") as status:
            try:
                out, err = process.communicate(input, timeout_s)
            except subprocess.TimeoutExpired:
                kill_tree(process.pid)
                raise
            told = status.read()
        return Run(
            process.returncode,
            out,
            err.decode(errors="replace"),
            json.loads(told) if told else {},
        )

    def attempts(
        self, *attempts: Sequence[Any], grants: Sequence[str | os.PathLike[str]], **options: Any
    ) -> list[Any]:
        """What came of each attempt (inside.py), tried in one box in this order."""
        run = self.exec(*grants, command=attempts_command(*attempts), **options)
        assert run.code == 0, run.err
        answers: list[Any] = json.loads(run.out)
        return answers

    @contextlib.contextmanager
    def started(self, *options: str, command: Sequence[str], **settings: Any) -> Any:
        """A boxed command that runs during the ``with`` block; killed with its box after it."""
        pipe = subprocess.PIPE
        process = subprocess.Popen(
            command_line(*options, "--quiet", command=command),
            stdin=pipe,
            stdout=pipe,
            stderr=pipe,
            cwd=self.project,
            env=self.env,
            start_new_session=True,
            **settings,
        )
        with process:
            try:
                yield process
            finally:
                if process.poll() is None:
                    process.kill()


def command_line(
    *options: str | os.PathLike[str], command: Sequence[str | bytes | os.PathLike[str]]
) -> list[Any]:
    """The words of ``axonkernel exec OPTIONS -- COMMAND``."""
    return [sys.executable, "-m", "axonkernel", "exec", *options, "--", *command]


def attempts_command(*attempts: Sequence[Any]) -> list[str]:
    """The command that tries ``attempts`` and prints what came of them."""
    return [PYTHON, "-ISc", INSIDE, json.dumps(attempts)]
