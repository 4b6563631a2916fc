"""Whatever a boxed program makes of itself, it is gone when the box ends, by any road."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from pathlib import Path

import pytest

from axonkernel.box.launch import BoxProcess, Launcher
from axonkernel.box.model import BoxPlan, BoxResult, Command
from box.boxed import PYTHON, Boxed
from box.plans import python
from lab import processes

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

GRANTS = ["--read", ".", "--write", "./out"]
#: A process of each stubborn kind, each with a beat of its own, then what ``{end}`` says.
TREE = """
import os, signal, sys, time

def beat(name):
    while True:
        with open("out/" + name, "a") as file: file.write("x")
        time.sleep(0.02)

def start(name, *steps, double=False):
    if os.fork(): return
    if double and os.fork(): os._exit(0)
    for step in steps: step()
    beat(name)

def deaf():
    for number in range(1, 65):
        try: signal.signal(number, signal.SIG_IGN)
        except (OSError, ValueError): pass

def unties():
    import ctypes
    ctypes.CDLL(None).prctl(1, 0, 0, 0, 0)  # no signal when the parent dies

def silent():
    for fd in (0, 1, 2): os.close(fd)

def reopens():
    null = os.open("/dev/null", os.O_RDWR)
    for fd in (0, 1, 2): os.dup2(null, fd)
    os.chdir("/proc/self")
    os.chdir(here)

def stops_others():
    pid = os.fork()
    if pid == 0: beat("stopped")
    time.sleep(0.1)
    os.kill(pid, signal.SIGSTOP)

def breeds():
    # Each generation leaves its session and its parent; sixty of them, then one stays.
    for _ in range(60):
        if os.fork(): os._exit(0)
        os.setsid()

here = os.getcwd()
start("child")
start("session", os.setsid, double=True)
start("deaf", deaf, os.setsid, double=True)
start("untied", unties, os.setsid, double=True)
start("silent", silent, os.setsid)
start("daemon", os.setsid, reopens, double=True)
start("stopper", stops_others)
start("breeder", breeds)
names = ["child", "session", "deaf", "untied", "silent", "daemon", "stopper", "stopped", "breeder"]
while not all(os.path.exists("out/" + name) for name in names): time.sleep(0.02)
open("out/ready", "w").close()
{end}
"""


def beats(project: Path) -> dict[str, int]:
    return {file.name: file.stat().st_size for file in (project / "out").iterdir()}


def silent(project: Path) -> bool:
    before = beats(project)
    time.sleep(0.25)
    return beats(project) == before


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < deadline, path
        time.sleep(0.02)


@pytest.mark.parametrize(
    ("end", "code"),
    [
        ("os._exit(3)", 3),
        ("os.kill(os.getpid(), signal.SIGKILL)", 137),
        ("os.kill(os.getpid(), signal.SIGSTOP)", 137),
    ],
    ids=["exit", "killed", "wall-while-stopped"],
)
def test_nothing_of_a_stubborn_tree_is_left(box: Boxed, end: str, code: int) -> None:
    """Sessions, double forks, ignored signals, no parent-death signal, held pipes, stopped
    processes, sixty generations: all gone when the program exits, is killed, or stops itself
    until the wall limit. While it ran they all lived (the beats)."""
    limit = ["--limit", "wall=4s"] if "STOP" in end else []
    run = box.exec(*GRANTS, *limit, command=[PYTHON, "-ISc", TREE.replace("{end}", end)])
    assert run.code == code, run.err
    assert (box.project / "out/ready").exists()
    assert all(size for name, size in beats(box.project).items() if name != "ready")
    assert silent(box.project)


def test_nothing_is_left_of_it_with_its_supervisor_killed(box: Boxed) -> None:
    """SIGKILL of the supervisor."""
    code = TREE.replace("{end}", "time.sleep(60)")
    with box.started(*GRANTS, command=[PYTHON, "-ISc", code]) as process:
        wait_for(box.project / "out/ready")
        assert not silent(box.project)
        process.kill()
        process.wait()
        deadline = time.monotonic() + 2
        while not silent(box.project):
            assert time.monotonic() < deadline


def test_a_held_pipe_does_not_hold_the_caller(box: Boxed) -> None:
    """The reader of the output sees its end with the program's, although a daemon held it."""
    code = """
import os, time
if os.fork() == 0:
    os.setsid()
    time.sleep(60)
os.write(1, b"said")
"""
    with box.started(*GRANTS, command=[PYTHON, "-ISc", code]) as process:
        out, _ = process.communicate(timeout=30)
        assert (process.returncode, out) == (0, b"said")


# -- signals ----------------------------------------------------------------------------

BEAT = """
import time
while True:
    with open("out/beat", "a") as file: file.write("x")
    time.sleep(0.02)
"""


def test_stopped_and_continued_without_a_terminal(box: Boxed) -> None:
    """SIGTSTP stops the program, its children and the supervisor; SIGCONT has all go on."""
    code = "import os; os.fork()\n" + BEAT
    with box.started(*GRANTS, command=[PYTHON, "-ISc", code]) as process:
        wait_for(box.project / "out/beat")
        process.send_signal(signal.SIGTSTP)
        deadline = time.monotonic() + 10
        while processes.state(process.pid) != "T":
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert silent(box.project)
        process.send_signal(signal.SIGCONT)
        assert not silent(box.project)
        process.terminate()
        assert process.wait(20) == 143


def test_a_program_that_minds_sigtstp_decides_itself(box: Boxed) -> None:
    """Its handler runs, and it is not stopped."""
    code = (
        """
import signal
signal.signal(signal.SIGTSTP, lambda *_: open("out/told", "w").close())
"""
        + BEAT
    )
    with box.started(*GRANTS, command=[PYTHON, "-ISc", code]) as process:
        wait_for(box.project / "out/beat")
        process.send_signal(signal.SIGTSTP)
        wait_for(box.project / "out/told")
        assert not silent(box.project)
        process.send_signal(signal.SIGCONT)


@pytest.mark.deep
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_ten_seconds_after_being_told_a_box_ends(box: Boxed, name: str) -> None:
    """A program that ignores the signal is killed, not before nine seconds; SIGINT and SIGQUIT,
    which a person can repeat, end nobody who ignores them."""
    code = f"import signal; signal.signal(signal.{name}, signal.SIG_IGN)\n" + BEAT
    with box.started(*GRANTS, command=[PYTHON, "-ISc", code]) as process:
        wait_for(box.project / "out/beat")
        process.send_signal(getattr(signal, name))
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(9)
        assert not silent(box.project)
        assert process.wait(20) == 137
    assert silent(box.project)


# -- boxes of a program -----------------------------------------------------------------


def ended(box: BoxProcess) -> BoxResult:
    result = box.wait(30)
    box.close()
    assert result is not None
    return result


def test_grace_is_the_callers(launcher: Launcher, plan: BoxPlan, project: Path, null: int) -> None:
    """A signal with a grace of a moment ends a deaf program; without one it lives on."""
    deaf = "import signal; signal.signal(15, signal.SIG_IGN)\n" + BEAT
    box = launcher.start(plan, python(deaf, null))
    wait_for(project / "out/beat")
    box.signal(signal.SIGTERM)
    assert box.wait(1.0) is None
    box.signal(signal.SIGTERM, grace_s=0.2)
    assert ended(box)[:2] == (137, "killed")
    assert silent(project)


def test_a_program_that_obeys_has_its_own_code(
    launcher: Launcher, plan: BoxPlan, project: Path, null: int
) -> None:
    """Within the grace nothing is killed."""
    obeys = "import os, signal; signal.signal(15, lambda *_: os._exit(4))\n" + BEAT
    box = launcher.start(plan, python(obeys, null))
    wait_for(project / "out/beat")
    box.signal(signal.SIGTERM, grace_s=20)
    assert ended(box)[:2] == (4, "exit")


def test_a_box_outlives_the_thread_that_started_it(
    launcher: Launcher, plan: BoxPlan, project: Path, null: int
) -> None:
    """It lives with its warden; another thread waits for it."""
    boxes: list[BoxProcess] = []
    thread = threading.Thread(target=lambda: boxes.append(launcher.start(plan, python(BEAT, null))))
    thread.start()
    thread.join()
    wait_for(project / "out/beat")
    time.sleep(0.3)
    assert not silent(project) and boxes[0].wait(0) is None
    boxes[0].kill()
    assert ended(boxes[0]).reason == "killed"


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


def many(launcher: Launcher, plan: BoxPlan, null: int, count: int) -> None:
    """``count`` launches: programs that exit, are not there, are killed, are let go of."""
    for n in range(count):
        match n % 4:
            case 0:
                assert (
                    ended(launcher.start(plan, python("raise SystemExit(5)", null))).exit_code == 5
                )
            case 1:
                box = launcher.start(plan, Command(("/absent",), null, null, null))
                assert ended(box).exit_code == 127
            case 2:
                box = launcher.start(plan, python("import time; time.sleep(60)", null))
                box.kill()
                assert ended(box).exit_code == 137
            case _:
                launcher.start(plan, python("import time; time.sleep(60)", null)).close()


@pytest.mark.parametrize(
    "count", [40, pytest.param(500, marks=[pytest.mark.deep, pytest.mark.timeout(900)])]
)
def test_many_launches_leave_nothing(
    launcher: Launcher, plan: BoxPlan, null: int, count: int
) -> None:
    """No descriptor here; the fixture looks for processes, mounts, links, groups and files."""
    many(launcher, plan, null, 4)
    before = descriptors()
    many(launcher, plan, null, count)
    assert descriptors() == before
