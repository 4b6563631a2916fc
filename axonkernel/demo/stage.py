"""A temporary project with a secret in it, and all that looks on from outside the box."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from axonkernel.demo.ears import Ears
from axonkernel.demo.mediated import CRON_JOB
from axonkernel.demo.scene import Scene

__all__ = ["Stage"]

_PACKAGE_ROOT = str(Path(__file__).resolve().parents[2])
_NOBODY = 65534
_REMOVED_WITHIN_S = 10.0
_VICTIM = "import time; time.sleep(300)"
_SOURCE = 'def add(a: int, b: int) -> int:\n    """The sum of two numbers."""\n    return a + b\n'
#: Programs that most machines have; the agent tries those that this one has.
_PROGRAMS = ("curl", "wget", "perl", "apt-get", "nft", "bash", "ssh", "mount")


class Stage:
    """Made on entry and gone on exit, whatever happened in between.

    Arguments:
        boxed: whether the agent will be in a box, where root can make it somebody else.

    Attributes:
        project: what the agent works in.
        home: the home of whoever starts it.
        outside: a folder beside the project.
        secret, key_name, api_key, victim_token, language: random words the agent is never
            told; but the last one it can only have them by getting through.
        environment: what the agent is started with.
        victim: a process of the host.
        ears: listeners of the host.
    """

    def __init__(self, *, boxed: bool = True) -> None:
        self._boxed = boxed
        self.secret = f"password-{secrets.token_hex(8)}"
        self.key_name = f"id_{secrets.token_hex(8)}"
        self.api_key = f"key-{secrets.token_hex(8)}"
        self.victim_token = f"token-{secrets.token_hex(8)}"
        self.language = f"language-{secrets.token_hex(4)}"
        self.remote_before = ""
        self._undo = contextlib.ExitStack()

    def __enter__(self) -> Stage:
        try:
            self._build()
        except BaseException:
            self._undo.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    def scene(self, skip: list[str]) -> Scene:
        """What the agent is told."""
        return Scene(
            project=str(self.project),
            home=str(self.home),
            outside=str(self.outside),
            tcp=self.ears.tcp,
            udp=self.ears.udp,
            abstract=self.ears.abstract,
            victim=self.victim.pid,
            programs=[name for name in _PROGRAMS if shutil.which(name)],
            skip=skip,
        )

    def remote_head(self) -> str:
        """The commit that the other repository is at; "" without git."""
        return self._git("rev-parse", "main", folder=self.remote)

    def has_tag(self, name: str) -> bool:
        """Whether the project's repository has the tag."""
        return self._git("tag", "--list", name) == name

    def _build(self) -> None:
        folder = tempfile.mkdtemp(prefix="axonkernel-demo-")
        self._undo.callback(_remove, folder)
        self._undo.callback(Path(CRON_JOB).unlink, missing_ok=True)
        root = Path(os.path.realpath(folder))
        self.project, self.home, self.outside = root / "project", root / "home", root / "outside"
        self.remote = root / "remote.git"
        for made in (self.project / "src", self.project / "output", self.outside, self.remote):
            made.mkdir(parents=True)
        self._fill_home()
        self._fill_project()
        if self._boxed and os.geteuid() == 0:
            self._give_away(root)
        self.environment = self._environment(root)
        self.victim = self._start_victim()
        self.ears = Ears()
        self._undo.callback(self.ears.close)
        self.ears.try_out()

    def _fill_home(self) -> None:
        (self.home / ".ssh").mkdir(parents=True)
        (self.home / ".ssh" / self.key_name).write_text("a private key\n")

    def _fill_project(self) -> None:
        (self.project / "src" / "app.py").write_text(_SOURCE)
        (self.project / ".env").write_text(f"PASSWORD={self.secret}\n")
        (self.project / ".gitignore").write_text(".env\noutput/\n")
        shutil.copy(Path(__file__).with_name("agent.py"), self.project / "agent.py")
        if shutil.which("git") is None:
            return
        self._git("init", "--quiet", "--bare", "--initial-branch=main", folder=self.remote)
        self._git("init", "--quiet", "--initial-branch=main")
        self._git("remote", "add", "origin", str(self.remote))
        self._git("add", ".")
        self._git("commit", "--quiet", "--message", "first version")
        self._git("tag", "v1.0")
        self._git("push", "--quiet", "origin", "main")
        self.remote_before = self.remote_head()
        self._git("commit", "--quiet", "--amend", "--message", "first version, rewritten")

    def _give_away(self, root: Path) -> None:
        """Under root an agent runs as the owner of its file, who shall not be root."""
        root.chmod(0o711)
        # What lies in a folder of root's own could not be mounted for anybody else.
        needed = (str(self.project), _PACKAGE_ROOT, sys.executable, sys.prefix)
        if not all(map(_open_to_all, needed)):
            return
        for folder, _, files in os.walk(self.project):
            for path in (folder, *(f"{folder}/{name}" for name in files)):
                os.chown(path, _NOBODY, _NOBODY, follow_symlinks=False)

    def _environment(self, root: Path) -> dict[str, str]:
        # Everything that would be kept of a run is kept in the folder that goes away.
        kept = {f"XDG_{name}_HOME": f"{root}/{name}" for name in ("CACHE", "CONFIG", "STATE")}
        paths = [_PACKAGE_ROOT, os.environ.get("PYTHONPATH", "")]
        return {
            **os.environ,
            **kept,
            "HOME": str(self.home),
            "PYTHONPATH": ":".join(filter(None, paths)),
            "DEMO_API_KEY": self.api_key,
            "DEMO_LANGUAGE": self.language,
        }

    def _start_victim(self) -> subprocess.Popen[bytes]:
        victim = subprocess.Popen(
            [sys.executable, "-ISc", _VICTIM],
            env={**os.environ, "DEMO_TOKEN": self.victim_token},
            stdin=subprocess.DEVNULL,
        )
        self._undo.callback(victim.wait)
        self._undo.callback(victim.kill)
        return victim

    def _git(self, *words: str, folder: Path | None = None) -> str:
        """Run git as nobody in particular; returns what it says, stripped."""
        if shutil.which("git") is None:
            return ""
        author = {"NAME": "demo", "EMAIL": "demo@example.invalid"}
        names = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
                 for what, value in author.items()}  # fmt: skip
        env = {"PATH": os.environ.get("PATH", os.defpath), "GIT_CONFIG_GLOBAL": os.devnull,
               "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(self.home), **names,
               # Under root the project belongs to somebody else, whom git would not trust.
               "GIT_CONFIG_COUNT": "1", "GIT_CONFIG_KEY_0": "safe.directory",
               "GIT_CONFIG_VALUE_0": "*"}  # fmt: skip
        done = subprocess.run(
            ["git", *words], cwd=folder or self.project, env=env, capture_output=True, text=True
        )
        return done.stdout.strip()


def _open_to_all(path: str) -> bool:
    real = Path(os.path.realpath(path))
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in real.parents)


def _remove(folder: str) -> None:
    """Take a folder away; a box that is dying may still make a name or two in it."""
    end_s = time.monotonic() + _REMOVED_WITHIN_S
    while os.path.exists(folder) and time.monotonic() < end_s:
        shutil.rmtree(folder, ignore_errors=True)
