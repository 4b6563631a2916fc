"""Running a program without a box: bounded output, bounded time, nothing left behind."""

from __future__ import annotations

import os
import resource
import shlex
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from axonkernel.errors import LimitExceeded, ToolError
from axonkernel.policy.model import EnvPolicy, Limits, Policy, ShellPolicy
from axonkernel.process import OUTPUT_BYTES, Call, Lookup, Place, ProcessResult, Start

ENV = {"PATH": "/usr/bin:/bin", "HOME": "/home/x", "LANG": "C.UTF-8", "SECRET": "s3cret"}


def _call(
    *argv: str,
    policy: Policy | None = None,
    environ: Mapping[str, str] = ENV,
    data: bytes | None = None,
    timeout_s: float | None = None,
    cwd: str = "/",
    **options: Any,
) -> Call:
    policy = policy or Policy()
    program = Lookup(policy, environ).find(argv[0], cwd)
    start = Start(tuple(argv), program, cwd, **options)
    return Call(start, Place(policy, None, environ), data, timeout_s)


def _run(*argv: str, **options: Any) -> ProcessResult:
    return _call(*argv, **options).run()


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_output_and_exit_code() -> None:
    """Both outputs come back, and the program's own exit code."""
    result = _run("sh", "-c", "echo out; echo err >&2; exit 3")
    assert (result.exit_code, result.text, result.error_text) == (3, "out\n", "err\n")
    assert not result.ok and result.held_by == ()


@pytest.mark.parametrize("word", ["", "a b", "*", "$HOME", "a\rb", "\x0b", "\u2028", "\u00a0", "é"])
def test_words_pass_unchanged(word: str) -> None:
    """No shell touches the words of a call."""
    assert _run("printf", "[%s]", word).stdout == f"[{word}]".encode()


def test_a_signal_is_128_and_its_number() -> None:
    """A program killed by a signal ends as a shell would say."""
    assert _run("sh", "-c", "kill -TERM $$").exit_code == 143


def test_a_missing_program_is_127(tmp_path: Path) -> None:
    """And one that cannot be executed does not run."""
    result = _run("no-such-program-here")
    assert result.exit_code == 127 and b"no such program" in result.stderr
    plain = tmp_path / "plain"
    plain.write_text("echo ran")
    assert _run(str(plain)).exit_code in (126, 127)
    bad = tmp_path / "bad"
    bad.write_bytes(b"\x7fELF nonsense")
    bad.chmod(0o755)
    assert _run(str(bad)).exit_code == 126


def test_a_missing_working_directory_is_named() -> None:
    """It is not taken for a missing program."""
    with pytest.raises(ToolError, match="working directory"):
        _run("true", cwd="/no/such/folder")


def test_input_is_empty_unless_given() -> None:
    """A program that reads waits for nobody; input larger than a pipe is written."""
    assert _run("cat").stdout == b""
    data = os.urandom(1_000_000)
    assert _run("cat", data=data).stdout == data
    assert _run("true", data=data).ok


def test_there_is_no_terminal() -> None:
    """/dev/tty cannot be opened: no prompt reaches a person behind the kernel's back."""
    assert not _run("sh", "-c", ": < /dev/tty").ok


@pytest.mark.parametrize("command", [["git", "log"], ["python3"], ["sh", "-c", "read x"], ["less"]])
def test_programs_that_wait_for_a_person_end(command: list[str], tmp_path: Path) -> None:
    """Pagers, prompts and interpreters end by themselves."""
    start = time.monotonic()
    _run(*command, cwd=str(tmp_path), timeout_s=5)
    assert time.monotonic() - start < 5


def test_quiet_variables_are_set() -> None:
    """git asks no terminal and pages nothing."""
    text = _run("env").text.splitlines()
    assert {"GIT_TERMINAL_PROMPT=0", "PAGER=cat", "GIT_PAGER=cat"} <= set(text)


def test_a_declared_environment_is_built_from_nothing(tmp_path: Path) -> None:
    """Only the floor and what is let in; no .env file is ever read."""
    (tmp_path / ".env").write_text("DB=secret")
    policy = Policy(env=EnvPolicy(set=(("MODE", "x"),)))
    result = _run("env", policy=policy, cwd=str(tmp_path), env={"EXTRA": "y"})
    names = {line.partition("=")[0] for line in result.text.splitlines()}
    quiet = {"GIT_TERMINAL_PROMPT", "PAGER", "GIT_PAGER"}
    assert names - quiet == {"PATH", "HOME", "LANG", "MODE", "EXTRA"}
    assert result.env_dropped == ("SECRET",)


def test_an_undeclared_environment_is_passed_on() -> None:
    """No env block, no opinion."""
    result = _run("env")
    assert "SECRET=s3cret" in result.text and result.env_dropped == ()


def test_names_can_be_kept_from_a_program() -> None:
    """What makes bash run other code does not get in, exported functions included."""
    environ = {**ENV, "BASH_ENV": "/x", "BASH_FUNC_ls%%": "() { echo owned; }"}
    result = _run("env", environ=environ, without_env=("BASH_ENV", "BASH_FUNC_*"))
    assert "BASH" not in result.text and "LANG" in result.text


def test_output_is_capped_and_the_program_is_not_held_up() -> None:
    """Where no limit is declared the first bytes are kept, the rest is read and dropped, and
    the exit code is the real one."""
    result = _run("sh", "-c", "head -c 20000000 /dev/zero; echo e >&2; exit 7")
    assert (len(result.stdout), result.exit_code) == (OUTPUT_BYTES, 7)
    assert result.stdout_truncated and not result.stderr_truncated
    assert result.stderr == b"e\n"
    assert f"stdout truncated at {OUTPUT_BYTES} bytes" in result.notes


@pytest.mark.parametrize("stream", ["", ">&2", "| tee /dev/stderr"])
def test_a_declared_output_limit_ends_the_program(stream: str, tmp_path: Path) -> None:
    """1 GB to either output, or to both: ended long before, typed, within a few MB here; a
    program that stays below the limit, both outputs together, is left alone."""
    policy = Policy(limits=Limits(output_bytes=1_000_000))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(LimitExceeded) as caught:
        flood = f"head -c 1000000000 /dev/zero {stream}; touch {tmp_path}/went-on"
        _run("sh", "-c", flood, policy=policy)
    assert (caught.value.kind, caught.value.limit) == ("output", 1_000_000)
    assert not (tmp_path / "went-on").exists()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 20_000
    half = f"head -c 500000 /dev/zero; head -c 500000 /dev/zero >&2; touch {tmp_path}/went-on"
    result = _run("sh", "-c", half, policy=policy)
    assert len(result.stdout) == len(result.stderr) == 500_000
    assert not result.stdout_truncated and (tmp_path / "went-on").exists()


def test_a_result_tells_what_was_used() -> None:
    """Processor time of the program and its children; how it ended."""
    busy = "import time\nwhile time.process_time() < 0.3: pass"
    result = _run("sh", "-c", f"{shlex.quote(sys.executable)} -ISc '{busy}'; exit 3")
    assert result.used.cpu_s is not None and 0.3 <= result.used.cpu_s < 3.0
    assert result.used.wall_s >= 0.3 and result.used.reason == "exit"
    idle = _run("sleep", "0.3")
    assert idle.used.cpu_s is not None and idle.used.cpu_s < 0.3 <= idle.used.wall_s


def test_a_flood_does_not_grow_this_process() -> None:
    """200 MB through the pipe cost less than 50 MB here."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = _run("head", "-c", "200000000", "/dev/zero")
    assert result.ok and len(result.stdout) == 10 * 1024 * 1024
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_a_call_returns_when_its_program_has_ended() -> None:
    """A grandchild that holds the pipe does not hold the call, and is ended."""
    policy = Policy(shell=ShellPolicy(allow=True, spawn=0))
    start = time.monotonic()
    result = _run("sh", "-c", "(sleep 10 & echo $!); exit 0", policy=policy)
    assert time.monotonic() - start < 3
    assert not _alive(int(result.text))
    assert "background process ended by kernel" in result.notes


def test_what_may_stay_stays() -> None:
    """With spawning allowed the call returns as soon, and the grandchild lives."""
    start = time.monotonic()
    result = _run("sh", "-c", "(sleep 10 & echo $!); exit 0", stays=True)
    pid = int(result.text)
    try:
        assert time.monotonic() - start < 3
        assert _alive(pid) and result.notes == ()
    finally:
        os.kill(pid, 9)


def test_the_timeout_ends_everything(tmp_path: Path) -> None:
    """Children in groups and sessions of their own die with the program."""
    code = (
        "import os, subprocess, sys, time\n"
        "a = subprocess.Popen(['sleep', '30'], process_group=0)\n"
        "b = subprocess.Popen(['sleep', '30'], start_new_session=True)\n"
        "open(sys.argv[1], 'w').write(f'{a.pid} {b.pid}')\n"
        "time.sleep(30)\n"
    )
    out = tmp_path / "pids"
    start = time.monotonic()
    with pytest.raises(LimitExceeded) as caught:
        _run(sys.executable, "-c", code, str(out), timeout_s=1.0)
    assert time.monotonic() - start < 3
    assert (caught.value.kind, caught.value.limit) == ("wall", 1.0)
    assert [_alive(int(pid)) for pid in out.read_text().split()] == [False, False]


def test_the_wall_limit_is_kept_without_a_box() -> None:
    """Where no box keeps it, the call does."""
    with pytest.raises(LimitExceeded) as caught:
        _run("sleep", "30", policy=Policy(limits=Limits(wall_s=0.2)))
    assert caught.value.kind == "wall"


def test_cancelling_ends_the_program() -> None:
    """From another thread, while it runs."""
    call = _call("sleep", "30")
    threading.Timer(0.2, call.cancel).start()
    start = time.monotonic()
    assert call.run().exit_code == 137
    assert time.monotonic() - start < 3


def test_cancelling_before_the_start_holds() -> None:
    """A call that was cancelled first is killed as soon as it starts."""
    call = _call("sleep", "30")
    call.cancel()
    assert call.run().exit_code == 137


def test_no_descriptor_leaks() -> None:
    """Runs, failures and timeouts leave the process as it was."""
    _run("true")
    before = sorted(os.listdir("/proc/self/fd"))
    for _ in range(5):
        _run("cat", data=b"x")
        _run("no-such-program-here")
        with pytest.raises(LimitExceeded):
            _run("sleep", "9", timeout_s=0.01)
    assert sorted(os.listdir("/proc/self/fd")) == before


def test_no_descriptor_of_ours_reaches_the_program() -> None:
    """It has its three, and the one with which it looks."""
    keep = os.open("/", os.O_RDONLY)
    os.set_inheritable(keep, True)
    try:
        listed = _run("ls", "/proc/self/fd").text.split()
    finally:
        os.close(keep)
    assert listed == ["0", "1", "2", "3"]
