"""Run the command as a user does: a process of its own, in a folder of the test's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]


class Ended:
    """A command that has ended."""

    def __init__(self, done: subprocess.CompletedProcess[bytes]) -> None:
        self.code = done.returncode
        self.out = done.stdout.decode()
        self.err = done.stderr.decode()

    @property
    def json(self) -> Any:
        """The one JSON document on stdout."""
        return json.loads(self.out)


class Shell:
    """A user's shell: a folder with a space in its name, a home, an empty environment."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / "my project"
        self.folder.mkdir(parents=True)
        self.env = {"HOME": str(home), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}

    def write(self, name: str, text: str, mode: int = 0o644) -> Path:
        """A file in the project's folder."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def axonkernel(self, *words: str | bytes, cwd: Path | None = None, **env: str) -> Ended:
        """Run ``axonkernel WORDS``."""
        done = subprocess.run(
            [sys.executable, "-m", "axonkernel", *words],
            cwd=cwd or self.folder,
            env={**self.env, **env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
        )
        ended = Ended(done)
        assert "Traceback" not in ended.err + ended.out
        return ended


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell with nothing configured."""
    return Shell(tmp_path / "home")
