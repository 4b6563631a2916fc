"""How a boxed run ends: exit codes, signals, streams, and nothing left behind."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from box.boxed import PYTHON, Boxed
from lab import processes

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

READ = ["--read", "."]
SHELL = [*READ, "--write", "./out", "--allow", "sleep"]


def wait_for(path: Path, process: subprocess.Popen[bytes] | None = None, s: float = 20) -> None:
    """Until a file is there; fails when the process ends first or time is up."""
    deadline = time.monotonic() + s
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} did not appear"
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.01)


def test_exit_codes_are_the_programs_own(box: Boxed) -> None:
    """0, 1, 7, 125 to 127 and 255 pass through, told apart from a failed launch."""
    for code in (0, 1, 7, 125, 126, 127, 255):
        run = box.exec(*READ, command=[PYTHON, "-ISc", f"import os; os._exit({code})"])
        assert run.code == code
        assert (run.status["exit"], run.status["reason"]) == (code, "exit")


@pytest.mark.parametrize("number", [1, 2, 3, 6, 9, 11, 13, 15, 24, 31, 34])
def test_a_signal_is_128_and_its_number(box: Boxed, number: int) -> None:
    """By whatever signal a program ends."""
    code = f"""
import os, signal
if {number} != 9: signal.signal({number}, signal.SIG_DFL)
os.kill(os.getpid(), {number})
"""
    run = box.exec(*READ, command=[PYTHON, "-ISc", code])
    assert (run.code, run.status["reason"]) == (128 + number, "exit")


def not_executable(path: Path) -> None:
    path.write_text("echo text")


def wrong_format(path: Path) -> None:
    path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(100))
    path.chmod(0o755)


def no_interpreter(path: Path) -> None:
    path.write_text("#!/nope\n")
    path.chmod(0o755)


def a_folder(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    "make", [not_executable, wrong_format, no_interpreter, a_folder], ids=lambda f: f.__name__
)
def test_126_for_what_cannot_be_executed(box: Boxed, make: object) -> None:
    """A launch that failed says so in its status, with a reason on stderr."""
    tool = box.project / "tool"
    make(tool)  # type: ignore[operator]
    run = box.exec(*READ, command=["./tool"])
    assert run.code == 126, run.err
    assert run.status["reason"] == "launch" and "tool" in run.err
    assert "Traceback" not in run.err


@pytest.mark.parametrize("name", ["no-such-program", "./absent", "/absent/tool", "", "a b"])
def test_127_for_what_is_not_there(box: Boxed, name: str) -> None:
    """By name or by path; nothing ran."""
    run = box.exec(*READ, command=[name])
    assert (run.code, run.status["reason"]) == (127, "launch"), run.err


def test_125_when_the_box_cannot_be_made(box: Boxed) -> None:
    """A field that nothing holds; the command did not run."""
    policy = box.root / "p.toml"
    policy.write_text('[fs]\nread = ["/"]\n[net]\nallow = []\nlisten = [8080]\nlink = "veth"\n')
    run = box.exec("--policy", str(policy), command=["/usr/bin/touch", "out/ran"])
    assert run.code == 125 and run.err
    assert not (box.project / "out/ran").exists()


def test_streams_are_binary_and_of_any_size(box: Boxed) -> None:
    """Eight million random bytes through a boxed program and back, stderr apart."""
    data = random.Random(5).randbytes(8_000_000)
    code = """
import sys
data = sys.stdin.buffer.read()
sys.stdout.buffer.write(data)
sys.stderr.write(str(len(data)))
"""
    run = box.exec(*READ, "--quiet", command=[PYTHON, "-ISc", code], input=data)
    assert (run.code, run.err) == (0, "8000000")
    assert hashlib.sha256(run.out).digest() == hashlib.sha256(data).digest()


def test_a_closed_reader_ends_the_writer(box: Boxed) -> None:
    """SIGPIPE works inside as it does outside."""
    with box.started(*READ, command=["/usr/bin/yes"]) as process:
        assert process.stdout.read(1000)
        process.stdout.close()
        assert process.wait(20) == 128 + signal.SIGPIPE


def test_closed_standard_streams(box: Boxed) -> None:
    """A supervisor started without streams gives none away and starts the box."""
    script = 'exec "$@" 0<&- 1>&- 2>&-'
    command = [PYTHON, "-ISc", "open('out/ran', 'w').write('x')"]
    run = box.exec(*SHELL, "--quiet", command=command, prefix=["sh", "-c", script, "sh"])
    assert run.code == 0
    assert (box.project / "out/ran").read_text() == "x"


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP", "SIGUSR1", "SIGUSR2", "SIGQUIT"])
def test_signals_reach_the_program(box: Boxed, name: str) -> None:
    """Its handler runs, and its exit code comes back."""
    code = f"""
import signal, sys, time
def caught(number, frame):
    open("out/caught", "w").write(signal.Signals(number).name)
    sys.exit(42)
signal.signal(signal.{name}, caught)
open("out/ready", "w")
time.sleep(30)
"""
    with box.started(*SHELL, command=[PYTHON, "-ISc", code]) as process:
        wait_for(box.project / "out/ready", process)
        process.send_signal(getattr(signal, name))
        assert process.wait(20) == 42
    assert (box.project / "out/caught").read_text() == name


def test_a_signal_without_a_handler_ends_the_program(box: Boxed) -> None:
    """SIGTERM is 143, as it would be without a box."""
    code = "import time; open('out/r', 'w'); time.sleep(30)"
    with box.started(*SHELL, command=[PYTHON, "-ISc", code]) as process:
        wait_for(box.project / "out/r", process)
        process.terminate()
        assert process.wait(20) == 128 + signal.SIGTERM


STUBBORN = """
import os, signal, time
for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"):
    signal.signal(getattr(signal, name), lambda number, frame: open(f"out/{number}", "w"))
if os.fork() == 0: os.setsid()
open("out/ready", "w")
while True:
    with open("out/beat", "a") as file: file.write("x")
    time.sleep(0.02)
"""


@pytest.mark.parametrize("first", ["SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"])
@pytest.mark.parametrize("second", ["SIGTERM", "SIGINT"])
def test_asked_twice_a_box_ends(box: Boxed, first: str, second: str) -> None:
    """A program that takes no notice lives on after the first signal; the second ends it and
    all it has forked, whatever it does about it."""
    with box.started(*SHELL, command=[PYTHON, "-ISc", STUBBORN]) as process:
        wait_for(box.project / "out/ready", process)
        process.send_signal(getattr(signal, first))
        wait_for(box.project / f"out/{int(getattr(signal, first))}", process)
        assert process.poll() is None and beats_on(box)
        process.send_signal(getattr(signal, second))
        assert process.wait(20) == 137
    assert is_gone(box)


def test_other_signals_do_not_count(box: Boxed) -> None:
    """Any number of SIGUSR1 is no request to end, nor is one of those with them."""
    code = STUBBORN.replace('("SIGTERM"', '("SIGUSR1", "SIGTERM"')
    with box.started(*SHELL, command=[PYTHON, "-ISc", code]) as process:
        wait_for(box.project / "out/ready", process)
        for number in (signal.SIGUSR1, signal.SIGUSR1, signal.SIGUSR1, signal.SIGTERM):
            told = box.project / f"out/{int(number)}"
            told.unlink(missing_ok=True)
            process.send_signal(number)
            wait_for(told, process)
        assert process.poll() is None and beats_on(box)
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 137
    assert is_gone(box)


BACKGROUND = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        {close}
        while True:
            with open("out/beat", "a") as file: file.write("x")
            time.sleep(0.02)
    os._exit(0)
time.sleep(0.2)
os._exit(3)
"""


@pytest.mark.parametrize("close", ["pass", "os.close(0); os.close(1); os.close(2)"],
                         ids=["holding-the-pipes", "closed"])  # fmt: skip
def test_no_process_outlives_the_box(box: Boxed, close: str) -> None:
    """A double-forked daemon is gone when the program ends, whatever it holds, and the run
    does not wait for it."""
    start = time.monotonic()
    run = box.exec(*SHELL, command=[PYTHON, "-ISc", BACKGROUND.format(close=close)])
    assert run.code == 3 and time.monotonic() - start < 15
    beats = (box.project / "out/beat").stat().st_size
    time.sleep(0.2)
    assert beats > 0 and (box.project / "out/beat").stat().st_size == beats


def test_the_wall_limit_is_the_supervisors(box: Boxed) -> None:
    """It ends the whole box in time, by SIGKILL, and says so; a shorter run is let be."""
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(30)"
    start = time.monotonic()
    run = box.exec(*READ, "--limit", "wall=1s", command=[PYTHON, "-ISc", code])
    assert 1 <= time.monotonic() - start < 10
    assert (run.code, run.status["reason"]) == (137, "wall")
    assert "wall limit" in run.err
    twin = box.exec(*READ, "--limit", "wall=20s", command=["/usr/bin/true"])
    assert (twin.code, twin.status["reason"]) == (0, "exit")


BEAT = """
import os, time
open("out/ready", "w").write(str(os.getpid()))
for _ in range(3):
    if os.fork() == 0: os.setsid()
while True:
    with open("out/beat", "a") as file: file.write("x")
    time.sleep(0.02)
"""


def beats_on(box: Boxed) -> bool:
    """Whether anything inside still writes."""
    beat = box.project / "out/beat"
    before = beat.stat().st_size if beat.exists() else 0
    time.sleep(0.2)
    return (beat.stat().st_size if beat.exists() else 0) != before


def kill_at(box: Boxed, delay_s: float, *options: str) -> None:
    """Start a box, kill -9 its supervisor after a while, and see it end within two seconds."""
    with box.started(*SHELL, *options, command=[PYTHON, "-ISc", BEAT]) as process:
        time.sleep(delay_s)
        process.kill()
        process.wait()
        assert is_gone(box)


def is_gone(box: Boxed) -> bool:
    """Whether the box and what watched it end within two seconds."""
    deadline = time.monotonic() + 2
    while (alive := below(box)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive and not beats_on(box)


def below(box: Boxed) -> list[str]:
    """Command lines of live processes that belong to this test's box."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if "out/ready" in line and processes.state(int(pid)) != "Z":
            found.append(line)
    return found


@pytest.mark.timeout(300)
def test_a_killed_supervisor_leaves_nothing(box: Boxed) -> None:
    """kill -9 at thirty random moments of the launch and during the run: no process,
    mount, link or file stays (the fixture looks)."""
    moments = random.Random(20)
    kill_at(box, 1.0)  # fills the caches, and is a running box
    assert (box.project / "out/beat").stat().st_size > 0
    for _ in range(29):
        kill_at(box, moments.uniform(0, 0.35))


@pytest.mark.deep
@pytest.mark.timeout(3000)
def test_a_supervisor_killed_five_hundred_times(box: Boxed) -> None:
    """The same, 500 times in the first 350 ms."""
    moments = random.Random(500)
    for _ in range(500):
        kill_at(box, moments.uniform(0, 0.35))


def test_a_killed_box_does_not_hang_its_supervisor(box: Boxed) -> None:
    """bwrap killed from outside is reported as a signal's end, not waited for."""
    with box.started(*SHELL, command=[PYTHON, "-ISc", BEAT]) as process:
        wait_for(box.project / "out/ready", process)
        below = processes.descendants(process.pid)
        lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in below}
        os.kill(next(pid for pid, line in lines.items() if b"/bwrap" in line), signal.SIGKILL)
        assert process.wait(20) == 137
    assert not beats_on(box)


def test_the_status_line_is_one_line_of_json(box: Boxed) -> None:
    """Posture, exit, reason, peaks and denials, and nothing of it on stdout."""
    run = box.exec(*READ, command=["/usr/bin/printf", "text"])
    assert run.out == b"text"
    assert {"posture", "exit", "reason", "peaks", "denials", "wall_s"} <= set(run.status)
    states = {row["field"]: row["state"] for row in run.status["posture"]}
    assert states["fs"] == states["net"] == states["shell"] == states["env"] == "enforced"
    assert json.dumps(run.status)
