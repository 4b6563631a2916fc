"""What the tests of the page "Kernel & Policy" share: values and a repository."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

from axonkernel import Kernel

#: The page's example of an escalation.
ESCALATE: dict[str, Any] = {"shell": {"allow": ["git"], "args": {"git": {"escalate": ["push*"]}}}}
PUSH = ["git", "push", "origin", "HEAD:refs/heads/main"]


Make = Callable[..., Kernel]


class Repository:
    """A commit, and a remote it can be pushed to."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.remote = home / "remote.git"
        self.folder = folder
        self._git("init", "--quiet", "--bare", str(self.remote))
        self._git("init", "--quiet", ".")
        self._git("remote", "add", "origin", str(self.remote))
        name = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        self._git(*name, "commit", "--quiet", "--allow-empty", "-m", "one")

    @property
    def pushed(self) -> bool:
        return (self.remote / "refs" / "heads" / "main").exists()

    def _git(self, *words: str) -> None:
        env = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder), "GIT_CONFIG_NOSYSTEM": "1"}
        self.folder.mkdir(exist_ok=True)
        subprocess.run(["git", *words], cwd=self.folder, env=env, check=True, timeout=30)
