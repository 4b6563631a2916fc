"""The ``axonkernel`` command itself: help, version, and what a user sees when it fails."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import axonkernel.cli
from axonkernel.cli import COMMANDS, main
from axonkernel.errors import (
    AuditError,
    AxonError,
    BoxError,
    Fault,
    IsolationUnavailable,
    PolicyDenied,
    PolicyError,
    ToolError,
)

from .conftest import ROOT, Shell


@pytest.mark.parametrize("word", ["--help", "-h", "help"])
def test_help_lists_every_command(shell: Shell, word: str) -> None:
    """Help goes to stdout, ends 0, and shows each command with its line."""
    ended = shell.axonkernel(word)
    assert ended.code == 0
    assert ended.err == ""
    for name, line in COMMANDS.items():
        assert f"{name:<12}{line}" in ended.out


def test_nothing_asked_is_wrong_usage_and_teaches(shell: Shell) -> None:
    """A bare call shows the help on stderr and ends 2."""
    ended = shell.axonkernel()
    assert ended.code == 2
    assert ended.out == ""
    assert "axonkernel init" in ended.err


def test_version(shell: Shell) -> None:
    """One line, on stdout."""
    ended = shell.axonkernel("--version")
    assert ended.code == 0
    assert ended.out.startswith("axonkernel ")


def test_a_misspelt_command_names_the_nearest(shell: Shell) -> None:
    """Wrong usage ends 2 and helps."""
    ended = shell.axonkernel("chekc")
    assert ended.code == 2
    assert "did you mean `axonkernel check`?" in ended.err


def test_control_characters_never_reach_the_terminal(shell: Shell) -> None:
    """What a file or an argument is called cannot act on the terminal."""
    ended = shell.axonkernel("\x1b[2Jx")
    assert ended.code == 2
    assert "\x1b" not in ended.err
    ended = shell.axonkernel("check", "\x1b[2J\udcff.toml")
    assert ended.code == 78
    assert "\x1b" not in ended.err


@pytest.mark.parametrize("name", ["check", "explain", "trust", "init", "schema"])
def test_each_command_explains_itself(shell: Shell, name: str) -> None:
    """``COMMAND --help`` and ``help COMMAND`` show the same, with an example."""
    ended = shell.axonkernel(name, "--help")
    assert ended.code == 0
    assert f"axonkernel {name}" in ended.out
    assert shell.axonkernel("help", name).out == ended.out


@pytest.mark.parametrize("name", ["check", "explain", "trust", "init", "schema"])
def test_an_unknown_option_is_wrong_usage(shell: Shell, name: str) -> None:
    """It ends 2 and says which one."""
    ended = shell.axonkernel(name, "--nope")
    assert ended.code == 2
    assert "--nope" in ended.err


def failing(monkeypatch: pytest.MonkeyPatch, name: str, error: BaseException) -> int:
    """Exit code of a command that ends with ``error``."""
    module = ModuleType(f"axonkernel.cli.{name}")

    def raise_it(argv: list[str]) -> int:
        raise error

    module.main = raise_it  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, f"axonkernel.cli.{name}", module)
    return main([name])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (PolicyError([Fault("$.fs", "wrong", hint="right")]), 78),
        (BoxError("mounts", "did not work"), 125),
        (IsolationUnavailable("fs", "bwrap", "apt-get install bubblewrap"), 125),
        (PolicyDenied("fs.read", "read /etc/shadow"), 77),
        (AuditError("cannot be written"), 74),
        (ToolError("fs.read", "went wrong"), 1),
        (AxonError("something"), 1),
    ],
)
def test_our_errors_are_one_message_and_their_exit_code(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: AxonError,
    code: int,
) -> None:
    """Each kind of error has its exit code, and its text is on stderr only."""
    assert failing(monkeypatch, "check", error) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert err == f"axonkernel check: {error}\n"


@pytest.mark.parametrize(("name", "code"), [("check", 70), ("exec", 125), ("run", 125)])
def test_an_unforeseen_fault_shows_no_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], name: str, code: int
) -> None:
    """A bug of ours is one message, and 125 where the command's own codes are passed on."""
    monkeypatch.delenv("AXON_DEBUG", raising=False)
    assert failing(monkeypatch, name, ZeroDivisionError("oops")) == code
    err = capsys.readouterr().err
    assert "ZeroDivisionError: oops" in err
    assert "Traceback" not in err


def test_a_developer_can_see_the_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """AXON_DEBUG=1 shows where an unforeseen fault came from."""
    monkeypatch.setenv("AXON_DEBUG", "1")
    assert failing(monkeypatch, "check", ZeroDivisionError("oops")) == 70
    assert "Traceback" in capsys.readouterr().err


def test_a_system_error_names_its_file(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A full disk or a missing permission is not a bug."""
    error = PermissionError(13, "Permission denied", "/x/policy.toml")
    assert failing(monkeypatch, "init", error) == 1
    assert capsys.readouterr().err == "axonkernel init: /x/policy.toml: Permission denied\n"


def test_an_interrupt_is_quiet(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Ctrl-C ends 130, as in a shell."""
    assert failing(monkeypatch, "check", KeyboardInterrupt()) == 130
    assert capsys.readouterr().err == ""


def test_a_reader_that_leaves_is_no_fault(shell: Shell) -> None:
    """``axonkernel schema | head -c1`` says nothing on stderr."""
    done = subprocess.run(
        ["bash", "-c", f"{shlex.quote(sys.executable)} -m axonkernel schema | head -c1"],
        cwd=shell.folder,
        env=shell.env,
        capture_output=True,
        timeout=60,
    )
    assert done.stdout == b"{"
    assert done.stderr == b""


def test_dispatching_imports_nothing_but_the_one_command() -> None:
    """The way to ``exec`` pays for no argparse, no attrs and no other subcommand."""
    code = (
        "import sys, types\n"
        "stand_in = types.ModuleType('axonkernel.cli.exec')\n"
        "stand_in.main = lambda argv: 7\n"
        "sys.modules['axonkernel.cli.exec'] = stand_in\n"
        "from axonkernel.cli import main\n"
        "assert main(['exec', '--', 'true']) == 7\n"
        "print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(ROOT)!r})\n{code}"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    ours = {name for name in loaded if name.startswith("axonkernel")}
    assert ours == {"axonkernel", "axonkernel.cli", "axonkernel.cli.exec"}
    assert not loaded & {"argparse", "attrs", "cattrs", "json", "pathlib"}


def test_every_command_in_the_table_has_its_module() -> None:
    """Help promises nothing that is not there."""
    folder = Path(axonkernel.cli.__file__).parent
    missing = [name for name in COMMANDS if not (folder / f"{name.replace('-', '_')}.py").exists()]
    assert missing == []
