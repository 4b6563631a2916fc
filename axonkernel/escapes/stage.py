"""The markers, secrets, services and processes that attempts are after, in one folder."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import stat
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

import axonkernel
from axonkernel.box.stubs import holder
from axonkernel.escapes.folder import AGENT_SOCKET, fill, programs, watched
from axonkernel.escapes.listeners import Listeners
from axonkernel.escapes.marks import Marks
from axonkernel.escapes.program import compile_attempts
from axonkernel.escapes.scene import Scene
from axonkernel.escapes.victims import Victims
from axonkernel.folders import own_folders

__all__ = ["VARIABLE", "Stage"]

#: A variable of the supervisor's that no policy grants by name.
VARIABLE = "ESCAPE_TEST_TOKEN"


class Stage:
    """Made on entry and gone on exit, whatever happened in between.

    Arguments:
        boxed: False for the control, where the same attempts are run without a box.
        base: where the folder is made; the home, or where others cannot enter that, the
            folder for temporary files.
        policy: the policy file in force, or "".
        owner: uid that the write grant belongs to when root makes it.

    Attributes:
        root: the one folder; ``project``, ``granted`` and ``outside`` are in it.
        token: what every secret of this stage begins with.
        environment: what a supervisor is started with.
    """

    def __init__(
        self, *, boxed: bool, base: Path | None = None, policy: str = "", owner: int | None = None
    ) -> None:
        self._boxed, self._base, self._policy, self._owner = boxed, base, policy, owner
        self.token = f"token-{secrets.token_hex(8)}"
        self._undo = contextlib.ExitStack()
        self._inherited: list[int] = []

    def __enter__(self) -> Stage:
        try:
            self._build()
        except BaseException:
            self._undo.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._undo.close()

    @property
    def missing(self) -> dict[str, str]:
        """What attempts may need and is not here, with how to get it."""
        lacks = {}
        if not self._program:
            lacks["compiler"] = "apt-get install gcc libc6-dev"
        if os.geteuid():
            lacks["other-owner"] = "only root can leave a file of another owner: sudo"
        return lacks

    @property
    def inherited(self) -> tuple[int, ...]:
        """Descriptors that the supervisor is given and must not hand on: a file with a
        secret, a folder outside, a connected socket."""
        return tuple(self._inherited)

    def fill(self, run_as: tuple[int, int] | None) -> Scene:
        """Give everything to whom the agent runs as, start the processes; tell where it is.

        Whoever the agent is, rights on files must not be what stops it.
        """
        uid, gid = run_as or (os.geteuid(), os.getegid())
        if run_as is not None:
            _give_away(self.root, uid, gid)
        self._make_set_uid()
        self.victims = Victims(self.token, self.outside, uid, gid)
        self._undo.callback(self.victims.close)
        places = watched(self.project, self.granted, self.outside)
        self.marks = Marks(places, programs(self.project), uid, self.outside.name)
        self._undo.callback(self.marks.clear)
        return self._scene()

    @property
    def places(self) -> dict[str, str]:
        """Every place that must stay as it is, with its attempt."""
        found = watched(self.project, self.granted, self.outside)
        return {str(path): name for path, name in found.items()}

    def evidence(self, name: str, loot: str) -> str:
        """What is seen outside of an attempt's success; "" for nothing."""
        if self.token in loot:
            return "a secret came out"
        if name in self.marks.changed():
            return "a marker was changed"
        if name in self.listeners.words():
            return "a service was reached"
        return "a process was harmed" if name in self.victims.harmed() else ""

    def _build(self) -> None:
        folder = tempfile.mkdtemp(prefix="axonkernel-escape-test-", dir=self._base or _base())
        self._undo.callback(_remove, folder)
        self.root = Path(os.path.realpath(folder))
        self.root.chmod(0o711)
        word = self.root.name.rpartition("-")[2]
        self.project, self.granted = self.root / "project", self.root / "granted"
        self.outside = self.root / f"outside-{word}"
        fill(self.project, self.granted, self.outside, self.token)
        self._program = compile_attempts(self.granted / "attempts")
        services = self.project / "services" / "service"
        paths = [self.outside / "service", self.outside / AGENT_SOCKET, services]
        self.listeners = Listeners(self.root.name, list(map(str, paths)))
        self._undo.callback(self.listeners.close)
        self.scratch = Path("/dev/shm", self.root.name)
        with contextlib.suppress(OSError):
            self.scratch.write_text(f"{self.token}-shared-memory\n")
            self.scratch.chmod(0o666)
            self._undo.callback(self.scratch.unlink, missing_ok=True)
        self.environment = {
            **os.environ,
            VARIABLE: f"{self.token}-variable",
            "SSH_AUTH_SOCK": str(self.outside / AGENT_SOCKET),
        }
        self._open_descriptors()
        if self._owner is not None and os.geteuid() == 0:
            os.chown(self.project, self._owner, self._owner)

    def _open_descriptors(self) -> None:
        paths = (self.outside / "secret", self.outside)
        opened = [os.open(path, os.O_RDONLY) for path in paths]
        for fd in opened:
            self._undo.callback(os.close, fd)
        self._inherited = [*opened, self.listeners.connected.fileno()]

    def _make_set_uid(self) -> None:
        """A program that tells who it is, and changes who one is where that is possible."""
        path = self.granted / "set-uid"
        program = shutil.which("id")
        if os.geteuid() or program is None:
            return
        # `id` without words tells all of it; a link of this name would not be set-uid.
        shutil.copy(program, path)
        os.chown(path, 1, 1)
        path.chmod(0o4755)

    def _scene(self) -> Scene:
        state, config, cache = own_folders()
        named: dict[str, Any] = {
            each: str(getattr(self, each)) for each in ("project", "granted", "outside")
        }
        heard, held = self.listeners, self.victims
        return Scene(
            **named,
            state=state,
            config=config,
            cache=cache,
            policy=self._policy or str(self.outside / "policy.toml"),
            code=axonkernel.__file__ or "",
            library=os.path.join(sysconfig.get_paths()["stdlib"], "os.py"),
            tcp=heard.tcp,
            tcp6=heard.tcp6,
            udp=heard.udp,
            address=heard.address,
            abstract=heard.abstract,
            abstract_datagram=heard.abstract_datagram,
            socket=str(self.outside / "service"),
            project_socket=str(self.project / "services" / "service"),
            victims=held.pids,
            holder=held.holder,
            holder_address=held.holder_address,
            supervisor=os.getpid(),
            supervisor_began=holder().partition(":")[2],
            shared_memory=held.key,
            queue=held.queue,
            variable=VARIABLE,
            program=self._program,
            boxed=self._boxed,
        )


def _remove(folder: str) -> None:
    """Remove a folder with all that attempts have made of it."""
    for where, folders, _ in os.walk(folder):
        for name in folders:  # before they are entered: a mode may keep their owner out
            path = f"{where}/{name}"
            if not os.path.islink(path):
                os.chmod(path, 0o700)
    shutil.rmtree(folder)


def _base() -> str | None:
    """The home; the folder for temporary files where root's agent could not enter that."""
    home = os.path.expanduser("~")
    if not os.access(home, os.W_OK | os.X_OK):
        return None
    above = (home, *map(str, Path(home).parents))
    is_open = all(os.stat(each).st_mode & stat.S_IXOTH for each in above)
    return home if os.geteuid() or is_open else None


def _give_away(root: Path, uid: int, gid: int) -> None:
    for folder, _, files in os.walk(root):
        for path in (folder, *(f"{folder}/{name}" for name in files)):
            if path != str(root):
                os.chown(path, uid, gid, follow_symlinks=False)
