"""``axonkernel exec``: what it refuses before there is a box."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence

import pytest

from axonkernel.cli.fault import report
from axonkernel.errors import IsolationUnavailable

from .conftest import Shell


def exec_with(shell: Shell, *options: str, fds: Sequence[int] = ()) -> tuple[int, str, str]:
    """Exit code, output and messages of ``axonkernel exec OPTIONS -- touch made``."""
    done = subprocess.run(
        [sys.executable, "-m", "axonkernel", "exec", *options, "--", "touch", "made"],
        cwd=shell.folder,
        env=shell.env,
        pass_fds=fds,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not (shell.folder / "made").exists()
    assert "Traceback" not in done.stderr
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("name", ["folder.toml", "gone.toml", "p.yaml", ""])
def test_a_policy_that_cannot_be_read_is_told_as_by_check(shell: Shell, name: str) -> None:
    """The same words and the same exit code; a folder is named, not a descriptor."""
    (shell.folder / "folder.toml").mkdir()
    checked = shell.axonkernel("check", f"--policy={name}")
    code, out, err = exec_with(shell, f"--policy={name}")
    assert (code, out) == (checked.code, checked.out) == (78, "")
    assert err == checked.err.replace("axonkernel check:", "axonkernel exec:")
    assert name in err and "$: " in err


def test_a_folder_is_no_policy(shell: Shell) -> None:
    """It is told what is wrong, by its name."""
    (shell.folder / "folder.toml").mkdir()
    ended = shell.axonkernel("check", "folder.toml")
    assert (ended.code, ended.out) == (78, "")
    assert "folder.toml: 1 fault\n  $: not a regular file" in ended.err


@pytest.mark.parametrize("options", [(), ("--policy", "policy.toml")], ids=["found", "named"])
@pytest.mark.parametrize("kind", ["fifo", "device", "huge"])
def test_what_is_no_policy_file_is_not_waited_for(
    shell: Shell, kind: str, options: tuple[str, ...]
) -> None:
    """A FIFO nobody writes to, an endless device, a huge file: told at once, as by check."""
    path = shell.folder / "policy.toml"
    if kind == "fifo":
        os.mkfifo(path, 0o600)
    elif kind == "device":
        path.symlink_to("/dev/zero")
    else:
        path.write_bytes(b"#" * (1024 * 1024 + 1))
        path.chmod(0o600)
    checked = shell.axonkernel("check", *options)
    code, out, err = exec_with(shell, *options)
    assert (code, out) == (checked.code, checked.out) == (78, "")
    assert err == checked.err.replace("axonkernel check:", "axonkernel exec:")
    assert ("larger than" if kind == "huge" else "not a regular file") in err


@pytest.mark.parametrize("value", ["9", "99999999999999999999", "x", "\N{SUPERSCRIPT TWO}", "-1"])
def test_a_status_that_cannot_be_told_is_wrong_usage(shell: Shell, value: str) -> None:
    """Found out before the command runs, not when it has ended."""
    code, out, err = exec_with(shell, "--json-status", value)
    assert (code, out) == (2, "")
    assert err.startswith("axonkernel exec: --json-status takes the number of a descriptor")


def test_a_descriptor_to_read_from_takes_no_status(shell: Shell) -> None:
    """One end of a pipe is refused; with the other the next fault is found."""
    ours, theirs = os.pipe()
    try:
        assert exec_with(shell, "--json-status", str(ours), fds=[ours])[0] == 2
        options = ("--json-status", str(theirs), "--policy", "gone.toml")
        assert exec_with(shell, *options, fds=[theirs])[0] == 78
    finally:
        os.close(ours)
        os.close(theirs)


@pytest.mark.parametrize(
    ("command", "field", "way"),
    [
        ("exec", "limits.memory", "without that wall; or leave out --limit memory"),
        ("exec", "net.link", "exec --best-effort ... runs without that wall; or leave out --net"),
        ("run", "limits.pids", "run --best-effort ... runs without that wall; or leave out limits"),
        ("run", "a Python configuration", ""),
        ("check", "limits.memory", ""),
    ],
)
def test_a_missing_wall_is_told_with_the_commands_own_switches(
    command: str, field: str, way: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a line of its own, where a switch of this command helps, and nowhere else."""
    error = IsolationUnavailable(field, "systemd", "get it")
    assert report(error, command=command, launcher=True) == 125
    first, *rest = capsys.readouterr().err.splitlines()
    assert first == f"axonkernel {command}: {error}" and 'isolation = "best-effort"' in first
    assert len(rest) == bool(way)
    assert way in "".join(rest)


@pytest.mark.parametrize(
    ("given", "fix"), [("PYTHONPATH", "--set PYTHONPATH=VALUE"), ("A=b", "--set A=b")]
)
def test_a_fix_for_a_variable_is_one_that_exec_takes(shell: Shell, given: str, fix: str) -> None:
    """Not a field of a policy that is not there."""
    ended = shell.axonkernel("exec", "--env", given, "--", "true")
    assert ended.code == 78 and f"fix: {fix}" in ended.err
    assert "unsafe_allow" not in ended.err
