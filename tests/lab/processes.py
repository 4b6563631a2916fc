"""Bounded processes for the lab: run, or be killed with everything they started."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = [
    "PATH",
    "REPOSITORY",
    "LabUnavailable",
    "descendants",
    "end",
    "entering",
    "find_program",
    "finish",
    "floor",
    "kill",
    "kill_tree",
    "parents",
    "piped",
    "start",
    "state",
]

#: How long a killed child may need to be reaped by its parent.
REAP_S = 0.3
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
#: Enter each group named before "--", then exec the rest. A systemd that tidies up may
#: remove an empty group between the two steps, so they are tried again a few times.
JOIN = """
while [ "$1" != -- ]; do
    tries=0
    until { mkdir -p "$1" && echo 0 > "$1/cgroup.procs"; } 2>/dev/null; do
        tries=$((tries + 1))
        if [ $tries -gt 9 ]; then echo "cannot enter $1" >&2; exit 125; fi
    done
    shift
done
shift
exec "$@"
"""
REPOSITORY = Path(__file__).resolve().parents[2]


class LabUnavailable(Exception):
    """This machine cannot give what was asked; the text names what to install or change."""


def find_program(name: str, package: str) -> str:
    """Absolute path of a system program. Raises LabUnavailable naming its Debian package."""
    for folder in PATH.split(":"):
        if os.access(f"{folder}/{name}", os.X_OK):
            return f"{folder}/{name}"
    raise LabUnavailable(f"{name} is not installed (apt-get install {package})")


def floor(home: str, uid: int) -> dict[str, str]:
    """The environment a command of the lab starts with: nothing of the test run's own."""
    runtime = {
        "XDG_RUNTIME_DIR": f"/run/user/{uid}",
        "DBUS_SESSION_BUS_ADDRESS": f"unix:path=/run/user/{uid}/bus",
    }
    common = {"PATH": PATH, "HOME": home, "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}
    return common | (runtime if uid else {})


def entering(
    argv: Sequence[str | os.PathLike[str]],
    *,
    target: int | None = None,
    namespaces: str = "",
    groups: Sequence[str] = (),
    uid: int = 0,
    cwd: str | None = None,
    env: Mapping[str, str] | None = None,
) -> list[str]:
    """The argv that runs ``argv`` in the namespaces and control groups of another process.

    Arguments:
        target: whose namespaces; None stays in the caller's.
        namespaces: options of nsenter, such as ``-m -n`` or ``-a``.
        groups: folders of control groups to enter first.
        uid: user and group of the command; other groups are dropped.
        cwd, env: of the command, seen from inside; env is the whole environment.
    """
    words = [os.fspath(word) for word in argv]
    inner = ["env", "-i", f"--chdir={cwd or '/'}", *(f"{k}={v}" for k, v in (env or {}).items())]
    if uid:
        inner = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", *inner]
    if target is not None:
        inner = ["nsenter", f"--target={target}", *namespaces.split(), *inner]
    return ["/bin/sh", "-c", JOIN, "sh", *groups, "--", *inner, *words]


def piped(input: str | None) -> dict[str, Any]:
    """Options of subprocess.Popen for what :func:`finish` waits for: text, both outputs kept."""
    pipe = subprocess.PIPE
    stdin = subprocess.DEVNULL if input is None else pipe
    return {"text": True, "errors": "replace", "stdin": stdin, "stdout": pipe, "stderr": pipe}


def finish(
    process: subprocess.Popen[str],
    argv: Sequence[str | os.PathLike[str]],
    input: str | None,
    timeout_s: float,
) -> subprocess.CompletedProcess[str]:
    """Wait for a command; kill it and all it started when it takes longer than ``timeout_s``.

    A command killed by signal N has the return code -N. ``argv`` is what the result and
    subprocess.TimeoutExpired name as the command.
    """
    words = [os.fspath(word) for word in argv]
    with process:
        try:
            out, err = process.communicate(input, timeout_s)
        except subprocess.TimeoutExpired:
            kill_tree(process.pid)
            raise subprocess.TimeoutExpired(words, timeout_s) from None
        except BaseException:
            kill_tree(process.pid)
            raise
        return subprocess.CompletedProcess(words, process.returncode, out, err)


def end(child: subprocess.Popen[Any], patience_s: float) -> None:
    """Let a child end that does so when its standard input closes; kill it if it does not."""
    with child:
        assert child.stdin
        with contextlib.suppress(BrokenPipeError):
            child.stdin.close()
        try:
            child.wait(patience_s)
        except subprocess.TimeoutExpired:
            kill_tree(child.pid)


def start(argv: Sequence[str], **options: Any) -> subprocess.Popen[Any]:
    """Start a command in a session of its own; it inherits PATH and nothing else."""
    settings: dict[str, Any] = {"env": {"PATH": PATH}, "start_new_session": True} | options
    return subprocess.Popen(argv, **settings)


def state(pid: int) -> str:
    """The state letter of a process; "" when there is none."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""
    return text.rpartition(") ")[2][:1]


def parents() -> dict[int, int]:
    """Parent of each process this one can see, zombies left out."""
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):
                fields = Path(f"/proc/{entry}/stat").read_text().rpartition(") ")[2].split()
                if fields[0] != "Z":
                    found[int(entry)] = int(fields[1])
    return found


def descendants(pid: int) -> list[int]:
    """Live processes below a process, children before grandchildren."""
    tree = parents()
    found, level = [], [pid]
    while level:
        level = [child for child, parent in tree.items() if parent in level]
        found += level
    return found


def kill_tree(pid: int) -> None:
    """SIGKILL a process of ours and everything below it, as far as it did not detach.

    The process itself comes last: an nsenter must reap its child, or the zombie holds up
    the end of the lab's pid namespace.
    """
    deadline = time.monotonic() + REAP_S
    while state(pid) not in ("", "Z") and time.monotonic() < deadline:
        for each in reversed(descendants(pid)):
            kill(each)
        time.sleep(0.005)
    for each in [*reversed(descendants(pid)), pid]:
        kill(each)


def kill(pid: int) -> None:
    """SIGKILL a process that may be gone already."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
