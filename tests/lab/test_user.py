"""The ordinary user of the tests has no privilege, and the test run keeps its own."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lab.user import OrdinaryUser


def who() -> tuple[int, int, list[int], str, str]:
    """Identity as a called function sees it."""
    return os.getuid(), os.getgid(), os.getgroups(), os.getcwd(), os.environ["HOME"]


def write_etc() -> None:
    """Something an ordinary user may not do."""
    Path("/etc/axon-user-test").write_text("x")


def leave() -> None:
    """End the process without an answer."""
    os._exit(3)


def test_runs_commands_without_privilege(ordinary_user: OrdinaryUser) -> None:
    """A command has the uid and no capability, and can write its home and not /etc."""
    script = (
        'id -u; grep CapEff /proc/self/status; echo x > "$HOME/file" && cat "$HOME/file"; '
        "echo x > /etc/axon-user-test"
    )
    done = ordinary_user.run(["sh", "-c", script])
    uid, capabilities, written = done.stdout.splitlines()
    assert int(uid) == ordinary_user.uid != 0
    assert int(capabilities.split()[1], 16) == 0
    assert written == "x"
    assert not os.path.exists("/etc/axon-user-test")


def test_calls_functions_without_privilege(ordinary_user: OrdinaryUser) -> None:
    """A called function has the uid, no groups and the home; this process keeps its own."""
    before = (os.geteuid(), os.getcwd())
    uid, gid, groups, cwd, home = ordinary_user.call(who)
    assert uid == ordinary_user.uid
    assert (cwd, home) == (str(ordinary_user.home),) * 2
    if ordinary_user.root:
        assert (gid, groups) == (ordinary_user.uid, [])
    assert (os.geteuid(), os.getcwd()) == before


def test_passes_exceptions_on(ordinary_user: OrdinaryUser) -> None:
    """An error of the function is raised here; a process that ends early is an error too."""
    with pytest.raises(PermissionError):
        ordinary_user.call(write_etc)
    with pytest.raises(TimeoutError):
        ordinary_user.call(leave)


def test_is_bounded(ordinary_user: OrdinaryUser, leftovers: None) -> None:
    """A command or function that takes too long is killed with what it started."""
    with pytest.raises(subprocess.TimeoutExpired):
        ordinary_user.run(["sh", "-c", "sleep 61 & sleep 62"], timeout_s=0.3)
    with pytest.raises(TimeoutError):
        ordinary_user.call(time.sleep, 60, timeout_s=0.3)


def test_reads_the_checkout(ordinary_user: OrdinaryUser) -> None:
    """The package imports as the user, with the interpreter of this test run."""
    root = Path(__file__).parents[2]
    done = ordinary_user.run([sys.executable, "-c", "import axonkernel.errors"], cwd=root)
    assert (done.returncode, done.stderr) == (0, "")


def test_home_is_gone_afterwards(leftovers: None) -> None:
    """The home exists for the with block only."""
    with OrdinaryUser() as user:
        user.run(["touch", str(user.home / "file")])
        assert (user.home / "file").exists()
    assert not user.home.exists()
