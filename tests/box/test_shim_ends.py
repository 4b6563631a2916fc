"""Signals, deaths and crowds between a shim, its caller and the supervisor."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from axonkernel.broker.listener import Incoming
from axonkernel.broker.wire import Ended, Refused
from box.shimmed import WAITS_S, Shimmed, runs, until
from lab.processes import REPOSITORY, state

pytestmark = pytest.mark.requires("box")

#: Writes down the signals it gets, with "ready" first; ends with 3 at the fifth.
NOTES = """
import os, signal, sys, time
told = []
def note(number, _):
    told.append(number)
    with open("told", "a") as file:
        file.write(f"{number}\\n")
for number in (1, 2, 3, 10, 12, 15, 28):
    signal.signal(number, note)
open("ready", "w").close()
until = time.monotonic() + 60
while len(told) < 5 and time.monotonic() < until:
    time.sleep(0.01)
sys.exit(3)
"""
#: Starts a job as a shell does: its group is no orphan, so that it can be stopped.
SHELL = """
import subprocess, sys
job = subprocess.Popen(sys.argv[1:], process_group=0)
with open("pid", "w") as file:
    file.write(f"{job.pid}\\n")
job.wait()
"""
#: A supervisor in a process of its own, with the tests' listener.
SUPERVISOR = """
import sys, time
sys.path[:0] = sys.argv[2:]
from axonkernel.broker.listener import Listener
from box.shimmed import runs
listener = Listener(sys.argv[1], lambda incoming: runs(incoming, incoming.argv[1:]))
print("ready", flush=True)
time.sleep(100)
"""
#: Calls a shim again and again; prints how many calls were right.
CALLS = """
import subprocess, sys
right = 0
for number in range(int(sys.argv[2])):
    word = f"{sys.argv[3]}-{number}"
    run = subprocess.run([sys.argv[1], word], input=word.encode() * 9, capture_output=True)
    right += (run.returncode, run.stdout) == (number % 200, word.encode() * 10)
print(right)
"""


@pytest.fixture
def shimmed(tmp_path: Path) -> Iterator[Shimmed]:
    """``prog WORDS`` runs ``WORDS`` outside."""
    with Shimmed(tmp_path, lambda incoming: runs(incoming, incoming.argv[1:])) as made:
        yield made


@contextlib.contextmanager
def started(shimmed: Shimmed, *words: str, prefix: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """A shim that has been started, whose pid is the process's."""
    # Below it waits another process: bwrap hands signals on to nobody.
    say = f'echo $$ > pid; {prefix} exec "$@"'
    command = ["sh", "-c", say, "sh", str(shimmed.bin / "prog"), *words]
    process = subprocess.Popen(
        shimmed.wrapped(command), cwd=shimmed.work, stderr=subprocess.PIPE, start_new_session=True
    )
    with process:
        try:
            yield process
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)


def pid_of(shimmed: Shimmed, *, relays: bool = True) -> int:
    """The shim that :func:`started` started, once it passes signals on."""
    file = shimmed.work / "pid"
    until(lambda: file.exists() and file.read_text().endswith("\n"))
    pid = int(file.read_text())
    until(lambda: not relays or "SigBlk:\t0000000000000000" not in status(pid))
    return pid


def status(pid: int) -> str:
    """What the kernel says of a process."""
    return Path(f"/proc/{pid}/status").read_text()


def is_gone(pid: int) -> bool:
    """Whether a process has ended."""
    return state(pid) in ("", "Z", "X")


def test_signals_reach_the_program(shimmed: Shimmed) -> None:
    """Every signal that asks a program for something gets there, in order; its end comes back."""
    with started(shimmed, sys.executable, "-c", NOTES) as process:
        until((shimmed.work / "ready").exists)
        told = shimmed.work / "told"
        sent = [signal.SIGINT, signal.SIGWINCH, signal.SIGUSR2, signal.SIGHUP, signal.SIGTERM]
        for count, number in enumerate(sent, 1):
            os.kill(pid_of(shimmed), number)
            until(lambda count=count: told.exists() and len(told.read_text().split()) == count)
        assert process.wait(WAITS_S) == 3
    assert [int(word) for word in told.read_text().split()] == sent


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_ends_program_and_shim_alike(shimmed: Shimmed, number: int) -> None:
    """A program that dies of a relayed signal leaves a shim that died of it."""
    script = "echo $$ > program; exec sleep 100"
    with started(shimmed, "sh", "-c", script) as process:
        program = shimmed.work / "program"
        until(lambda: program.exists() and program.read_text().endswith("\n"))
        os.kill(pid_of(shimmed), number)
        assert process.wait(WAITS_S) == 128 + number  # as bwrap tells it
    assert is_gone(int(program.read_text()))


def test_ignored_signals_stay_ignored(shimmed: Shimmed) -> None:
    """What nohup set aside does not reach the program; another signal does."""
    words = (sys.executable, "-c", NOTES)
    with started(shimmed, *words, prefix="trap '' HUP;"):
        until((shimmed.work / "ready").exists)
        told = shimmed.work / "told"
        os.kill(pid_of(shimmed), signal.SIGHUP)
        os.kill(pid_of(shimmed), signal.SIGUSR1)
        until(lambda: told.exists() and told.read_text())
        assert told.read_text() == f"{signal.SIGUSR1:d}\n"


def test_stop_and_continue(shimmed: Shimmed) -> None:
    """^Z stops shim and program, SIGCONT has both go on."""
    script = "echo $$ > program; exec sleep 100"
    words = [sys.executable, "-c", SHELL, str(shimmed.bin / "prog"), "sh", "-c", script]
    process = subprocess.Popen(shimmed.wrapped(words), cwd=shimmed.work, start_new_session=True)
    with process:
        program = shimmed.work / "program"
        until(lambda: program.exists() and program.read_text().endswith("\n"))
        shim, ran = pid_of(shimmed), int(program.read_text())
        os.kill(shim, signal.SIGTSTP)
        until(lambda: state(shim) == "T")
        os.kill(shim, signal.SIGCONT)
        until(lambda: state(shim) == "S" and state(ran) == "S")
        os.kill(shim, signal.SIGTERM)
        until(lambda: is_gone(ran) and is_gone(shim))


def test_a_killed_shim_ends_its_program(shimmed: Shimmed) -> None:
    """A call does not outlive its caller."""
    script = "echo $$ > program; exec sleep 100"
    with started(shimmed, "sh", "-c", script):
        program = shimmed.work / "program"
        until(lambda: program.exists() and program.read_text().endswith("\n"))
        assert not is_gone(int(program.read_text()))
        os.kill(pid_of(shimmed), signal.SIGKILL)
        until(lambda: is_gone(int(program.read_text())))


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_approval_after_the_caller_died(tmp_path: Path, number: int) -> None:
    """A question whose caller is killed, or given up with ^C, is withdrawn; a yes that comes
    then runs nothing. The same yes to a caller who waits runs the program."""
    asked, approved, marker = threading.Event(), threading.Event(), tmp_path / "marker"
    withdrawn: list[bool] = []
    pids: list[int] = []

    def answer(incoming: Incoming) -> Refused | Ended:
        pids.append(incoming.pid)
        asked.set()
        assert approved.wait(WAITS_S)
        withdrawn.append(incoming.gone())
        if withdrawn[-1]:
            return Refused(126, "nobody waits")
        return runs(incoming, ["touch", str(marker)])

    with Shimmed(tmp_path, answer) as shimmed:
        with started(shimmed, "push"):
            assert asked.wait(WAITS_S)
            assert pids == [pid_of(shimmed, relays=False)]
            os.kill(pids[0], number)
            until(lambda: is_gone(pids[0]))
            approved.set()
            until(lambda: withdrawn)
        assert withdrawn == [True] and not marker.exists()
        assert shimmed.run(["prog", "push"]).returncode == 0
        assert withdrawn == [True, False] and marker.exists()


def test_a_caller_that_dies_before_its_box_is_followed(tmp_path: Path) -> None:
    """A box that was started for a caller who died meanwhile is killed, not waited for."""
    begun = threading.Event()
    ended: list[Ended] = []

    def answer(incoming: Incoming) -> Refused | Ended:
        begun.set()
        until(incoming.gone)
        ended.append(runs(incoming, ["sleep", "100"]))
        return ended[0]

    with Shimmed(tmp_path, answer) as shimmed, started(shimmed, "push"):
        assert begun.wait(WAITS_S)
        os.kill(pid_of(shimmed, relays=False), signal.SIGKILL)
        until(lambda: ended)
    assert ended[0].status == 128 + signal.SIGKILL


def test_a_supervisor_that_ends_while_a_program_runs(shimmed: Shimmed) -> None:
    """Closing the listener ends the program, and the shim says so."""
    with started(shimmed, "sh", "-c", "touch ready; exec sleep 100") as process:
        until((shimmed.work / "ready").exists)
        pid_of(shimmed)
        shimmed.listener.close()
        assert process.stderr is not None
        told = process.stderr.read()
        assert process.wait(WAITS_S) == 125, told
    assert told == (
        b"axonkernel: the supervisor ended while the program ran, which has ended too.\n"
    )


def test_a_killed_supervisor(shimmed: Shimmed) -> None:
    """Shims whose supervisor is killed, with their programs running, fail with a message; so
    do later ones."""
    shimmed.listener.close()
    (shimmed.folder / "socket").unlink()
    words = [str(shimmed.folder / "socket"), str(REPOSITORY), str(REPOSITORY / "tests")]
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, *words], stdout=subprocess.PIPE
    )
    with supervisor:
        assert supervisor.stdout is not None
        assert supervisor.stdout.readline() == b"ready\n"
        with started(shimmed, "sh", "-c", "echo $$ > program; exec sleep 100") as process:
            program = shimmed.work / "program"
            until(lambda: program.exists() and program.read_text().endswith("\n"))
            pid_of(shimmed)
            supervisor.kill()
            assert process.wait(WAITS_S) == 125
            # No box was around it here, which would have died with the supervisor.
            os.kill(int(program.read_text()), signal.SIGKILL)
            assert process.stderr is not None
            assert b"the supervisor ended while the program ran" in process.stderr.read()
    run = shimmed.run(["prog", "true"])
    assert (run.returncode, b"no supervisor answers" in run.stderr) == (125, True)


@pytest.mark.parametrize(
    ("processes", "each"),
    [(8, 10), pytest.param(50, 20, marks=pytest.mark.deep)],
    ids=["80", "1000"],
)
def test_many_calls_at_once(tmp_path: Path, processes: int, each: int) -> None:
    """Every one of the calls gets its own input, output and status, however many there are."""

    def answer(incoming: Incoming) -> Refused | Ended:
        word = incoming.argv[1]
        number = int(word.rpartition("-")[2])
        return runs(incoming, ["sh", "-c", f"cat; printf {word}; exit {number % 200}"])

    with Shimmed(tmp_path, answer, most=16) as shimmed:
        code = [sys.executable, "-c", CALLS, str(shimmed.bin / "prog"), str(each)]
        callers = [
            subprocess.Popen(
                shimmed.wrapped([*code, f"caller{number}"]),
                stdout=subprocess.PIPE,
                cwd=shimmed.work,
            )
            for number in range(processes)
        ]
        right = [caller.communicate(timeout=300)[0] for caller in callers]
    assert right == [b"%d\n" % each] * processes
