"""A throw-away systemd: real scopes, real limits, and a machine that does not notice.

::

    with SystemdLab() as lab:
        lab.run(["systemd-run", "--scope", "-p", "MemoryMax=60M", "true"])

The lab sees an overlay of ``/`` (this checkout and its interpreter included) and writes to
memory. It has its own /tmp, /run, /dev, processes, network, host name and control groups.
"""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Self

from lab import processes
from lab.processes import REPOSITORY, LabUnavailable

__all__ = ["LabUnavailable", "SystemdLab"]

#: Where the package ``lab`` is, for the process that boots it.
TESTS = Path(__file__).parents[1]
#: Not by PYTHONPATH: a folder may have a colon in its name.
BOOT = """
import sys
sys.path.insert(0, sys.argv.pop(1))
from lab.boot import main
sys.exit(main())
"""
RUN_GROUP = "axonlab.run"


class SystemdLab:
    """Boots a systemd in namespaces of its own, for as long as the ``with`` block.

    Arguments:
        visible: more folders of this machine that must be there, writes going to memory.
        uid: an ordinary user that gets a user manager (lingering) in the lab.
        boot_s: seconds the boot may take.

    Raises LabUnavailable when this machine cannot boot it, saying why.
    """

    def __init__(
        self, *, visible: Iterable[str | Path] = (), uid: int = 1000, boot_s: float = 30.0
    ) -> None:
        self.uid = uid
        #: Pid of the lab's pid 1, seen from here.
        self.leader = 0
        #: Folders of the lab's control groups, seen from here.
        self.groups: tuple[str, ...] = ()
        #: Whether the user manager of ``uid`` came up.
        self.user_manager = False
        self._boot_s = boot_s
        self._visible = [str(path) for path in visible]
        self._holder: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self) -> None:
        """Boot and wait until every unit is up."""
        self._demand()
        settings = {"parent": os.getpid(), "visible": self._folders(), "uid": self.uid}
        self._holder = subprocess.Popen(
            [sys.executable, "-IS", "-c", BOOT, str(TESTS), json.dumps(settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={"PATH": processes.PATH},
            cwd="/",
        )
        try:
            self._read_report()
            self._wait_until_up()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Kill everything in the lab and wait until it is gone."""
        holder, self._holder, self.leader = self._holder, None, 0
        if holder is not None:
            processes.end(holder, 20)

    @property
    def holder(self) -> int:
        """Pid of the process that made the lab and ends it when this one is gone."""
        return self._holder.pid if self._holder else 0

    # -- commands --------------------------------------------------------------------------

    def run(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        user: int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        input: str | None = None,
        timeout_s: float = 60.0,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command in the lab and collect its output as text.

        Arguments:
            user: uid (and gid) of the command; root when None.
            env: added to a small floor (PATH, HOME, LANG, and XDG_RUNTIME_DIR and the bus
                address for an ordinary user). Nothing of this process is inherited.
            cwd: working directory inside; the home when None.
            input: text for standard input, which is empty when None.
            timeout_s: the command and its children are killed after so many seconds.

        The return code is -N when signal N ended it. Raises subprocess.TimeoutExpired.
        """
        process = self.popen(
            argv,
            user=user,
            env=env,
            cwd=cwd,
            **processes.piped(input),
        )
        return processes.finish(process, argv, input, timeout_s)

    def popen(
        self,
        argv: Sequence[str | os.PathLike[str]],
        *,
        user: int | None = None,
        env: Mapping[str, str] | None = None,
        cwd: str | Path | None = None,
        **options: Any,
    ) -> subprocess.Popen[Any]:
        """Start a command in the lab; ``options`` are those of subprocess.Popen.

        Its pid is that of the ``nsenter`` that waits for it: signals go to ``signal`` of
        this class. Dies with the lab at the latest.
        """
        if not self.leader:
            raise LabUnavailable("the lab is not running")
        uid = user or 0
        home = self.home(uid)
        command = processes.entering(
            argv,
            target=self.leader,
            namespaces="--all",
            groups=self._run_groups(),
            uid=uid,
            cwd=str(cwd or home),
            env=processes.floor(home, uid) | dict(env or {}),
        )
        return processes.start(command, **options)

    def pid(self, process: subprocess.Popen[Any], timeout_s: float = 5.0) -> int:
        """Pid, seen from here, of the command ``popen`` started (not of its nsenter)."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            for child in processes.descendants(process.pid)[:1]:
                return child
            time.sleep(0.01)
        raise ProcessLookupError(f"{process.args!r} did not start within {timeout_s} s")

    def signal(self, process: subprocess.Popen[Any], number: int) -> None:
        """Send a signal to the command ``popen`` started."""
        os.kill(self.pid(process), number)

    def kill(self, process: subprocess.Popen[Any]) -> None:
        """SIGKILL a started command with everything below it, and reap it."""
        processes.kill_tree(process.pid)
        process.wait(10)

    # -- files -----------------------------------------------------------------------------

    def put(
        self, path: str | Path, text: str, *, user: int | None = None, mode: int = 0o644
    ) -> None:
        """Write a file in the lab, and the folders it needs."""
        script = 'mkdir -p -- "$(dirname -- "$1")" && cat > "$1" && chmod "$2" -- "$1"'
        self._must(["sh", "-c", script, "sh", str(path), f"{mode:o}"], user=user, input=text)

    def get(self, path: str | Path) -> str:
        """Text of a file in the lab. Raises FileNotFoundError."""
        if self.run(["test", "-e", path]).returncode:
            raise FileNotFoundError(str(path))
        return self._must(["cat", "--", path])

    def folder(self, *, user: int | None = None) -> str:
        """Make a new, empty folder (mode 0700) in the lab's /tmp and return its path."""
        return self._must(["mktemp", "-d", "/tmp/work.XXXXXXXX"], user=user).strip()

    def home(self, uid: int = 0) -> str:
        """Home folder of a user of the lab; ``/`` for a uid without one."""
        if uid == 0:
            return "/root"
        try:
            return pwd.getpwuid(uid).pw_dir
        except KeyError:
            return "/home/axonlab" if uid == self.uid else "/"

    def processes(self) -> dict[int, str]:
        """Command lines of the live processes in the lab, by their pid inside."""
        found = {}
        proc = Path(f"/proc/{self.leader}/root/proc")
        for entry in os.listdir(proc):
            with contextlib.suppress(OSError):
                if entry.isdigit() and " Z " not in (proc / entry / "stat").read_text():
                    line = (proc / entry / "cmdline").read_bytes()
                    found[int(entry)] = line.replace(b"\0", b" ").decode(errors="replace").strip()
        return found

    # -- booting ---------------------------------------------------------------------------

    def _demand(self) -> None:
        if os.geteuid() != 0:
            raise LabUnavailable("the lab needs root (mounts, namespaces)")
        if not os.access("/lib/systemd/systemd", os.X_OK):
            raise LabUnavailable("systemd is not installed (apt-get install systemd)")
        for name, package in {
            "systemd-run": "systemd",
            "dbus-daemon": "dbus",
            "nsenter": "util-linux",
            "setpriv": "util-linux",
        }.items():
            processes.find_program(name, package)

    def _folders(self) -> list[str]:
        wanted: list[str | Path] = [REPOSITORY, sys.prefix, sys.base_prefix, *self._visible]
        return sorted({os.path.realpath(path) for path in wanted})

    def _read_report(self) -> None:
        assert self._holder and self._holder.stdout
        ready, _, _ = select.select([self._holder.stdout], [], [], self._boot_s)
        line = self._holder.stdout.readline() if ready else ""
        if not line:
            raise LabUnavailable(f"the lab did not start: {self._complaint()}")
        report = json.loads(line)
        if "error" in report:
            raise LabUnavailable(f"the lab cannot be built here: {report['error']}")
        self.leader, self.groups = report["leader"], tuple(report["groups"])

    def _complaint(self) -> str:
        assert self._holder and self._holder.stderr
        processes.kill_tree(self._holder.pid)
        return self._holder.stderr.read().strip() or f"silent for {self._boot_s} s"

    def _run_groups(self) -> list[str]:
        # Commands start beside systemd's own groups: in the lab's root group they would be
        # in the way of its limits (cgroup v2), outside they would be foreign to it.
        return [f"{group}/{RUN_GROUP}" for group in self.groups]

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + self._boot_s
        while (state := self._ask("is-system-running")) not in ("running", "degraded"):
            if time.monotonic() > deadline:
                raise LabUnavailable(f"systemd is {state!r} after {self._boot_s} s")
            time.sleep(0.05)
        if state == "degraded":
            failed = self._ask("list-units", "--state=failed", "--plain", "--no-legend")
            raise LabUnavailable(f"units failed in the lab: {failed}")
        while not self.user_manager and time.monotonic() < deadline:
            manager = self._ask("show", "-P", "ActiveState", f"user@{self.uid}.service")
            self.user_manager = manager == "active"
            if manager == "failed":
                break
            time.sleep(0.02)

    def _ask(self, *words: str) -> str:
        return self.run(["systemctl", *words], timeout_s=self._boot_s).stdout.strip()

    def _must(
        self, argv: Sequence[str | Path], *, user: int | None = None, input: str | None = None
    ) -> str:
        done = self.run(argv, user=user, input=input)
        if done.returncode:
            raise OSError(f"{argv!r} ended with {done.returncode} in the lab: {done.stderr}")
        return done.stdout
