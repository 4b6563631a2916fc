"""Boxes from a running program: the warm launcher, side by side, from threads, and killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from axonkernel.box.launch import BoxProcess, Launcher
from axonkernel.box.model import BoxPlan, BoxResult, Command, Mount
from axonkernel.errors import BoxError
from box.boxed import PYTHON
from box.plans import planned, python
from lab import processes

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

BEAT = "import time\nwhile True:\n    open('out/beat', 'a').write('x'); time.sleep(0.02)"


def ended(box: BoxProcess) -> BoxResult:
    result = box.wait(30)
    box.close()
    assert result is not None
    return result


def test_output_and_exit_code(launcher: Launcher, plan: BoxPlan, null: int) -> None:
    """Through the descriptors that were lent, which stay the caller's."""
    read, write = os.pipe()
    box = launcher.start(plan, python("import os; os.write(1, b'said'); os._exit(3)", null, write))
    os.close(write)
    with open(read, "rb") as pipe:
        assert pipe.read() == b"said"
    assert ended(box).exit_code == 3


def test_many_side_by_side_and_from_threads(launcher: Launcher, plan: BoxPlan, null: int) -> None:
    """Twelve boxes of four threads, each with its own result; one whose starting thread has
    ended lives on."""
    results: dict[int, int] = {}
    boxes: dict[int, BoxProcess] = {}

    def start(first: int) -> None:
        for n in range(first, first + 3):
            code = f"import os, time; time.sleep(0.3); os._exit({n})"
            boxes[n] = launcher.start(plan, python(code, null))

    threads = [threading.Thread(target=start, args=(10 * k,)) for k in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results = {n: ended(box).exit_code for n, box in boxes.items()}
    assert len(results) == 12 and all(n == code for n, code in results.items())


def beats(project: Path) -> int:
    path = project / "out/beat"
    return path.stat().st_size if path.exists() else 0


def wait_for_beat(project: Path) -> None:
    deadline = time.monotonic() + 20
    while not beats(project):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def silent(project: Path) -> bool:
    before = beats(project)
    time.sleep(0.2)
    return beats(project) == before


def test_kill_ends_every_process(
    launcher: Launcher, plan: BoxPlan, project: Path, null: int
) -> None:
    """137, the reason told; what it had forked is gone too."""
    box = launcher.start(plan, python(f"import os; os.fork(); os.setsid()\n{BEAT}", null))
    wait_for_beat(project)
    box.kill()
    result = ended(box)
    assert (result.exit_code, result.reason) == (137, "killed")
    assert silent(project)


def test_closing_a_box_kills_it(
    launcher: Launcher, plan: BoxPlan, project: Path, null: int
) -> None:
    """A handle that is let go leaves nothing running."""
    box = launcher.start(plan, python(BEAT, null))
    wait_for_beat(project)
    box.close()
    time.sleep(0.5)
    assert silent(project)


def test_signals_and_pauses(launcher: Launcher, project: Path, null: int) -> None:
    """A signal reaches the program; while paused the wall clock stands still."""
    code = "import signal, sys, time\nsignal.signal(10, lambda *_: sys.exit(9))\n" + BEAT
    box = launcher.start(planned(project), python(code, null))
    wait_for_beat(project)
    box.signal(signal.SIGUSR1)
    assert ended(box).exit_code == 9
    limited = launcher.start(
        planned(project, wall="1s"), python("import time; time.sleep(30)", null)
    )
    limited.pause()
    assert limited.wait(2.0) is None
    limited.resume()
    assert ended(limited).reason == "wall"


def test_a_failed_launch_is_a_result(launcher: Launcher, plan: BoxPlan, null: int) -> None:
    """Nothing ran; the stage and the message say why, and the next box starts."""
    box = launcher.start(plan, Command(("/nowhere",), null, null, null))
    result = ended(box)
    assert (result.exit_code, result.reason, box.pid) == (127, "launch", 0)
    assert "/nowhere" in result.message
    gone = plan._replace(mounts=(*plan.mounts, Mount("bind", "/x", "/nowhere")))
    broken = ended(launcher.start(gone, python("", null)))
    assert (broken.exit_code, broken.reason) == (125, "launch") and broken.message
    assert ended(launcher.start(plan, python("", null))).exit_code == 0


def test_a_launcher_works_again_after_its_fork_server_died(plan: BoxPlan, null: int) -> None:
    """One start may fail, with a BoxError; the next has a new server."""
    launcher = Launcher()
    assert ended(launcher.start(plan, python("", null))).exit_code == 0
    for pid in processes.descendants(os.getpid()):
        with contextlib.suppress(OSError):
            if b"axonkernel.box.forkserver" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
    time.sleep(0.2)
    with contextlib.suppress(BoxError):
        ended(launcher.start(plan, python("", null)))
    assert ended(launcher.start(plan, python("", null))).exit_code == 0
    launcher.close()


SUPERVISOR = """
import json, sys, time
from axonkernel.box.launch import Launcher
from axonkernel.box.model import Command, decode_plan
launcher = Launcher()
plan = decode_plan(json.load(open(sys.argv[1])))
boxes = [launcher.start(plan, Command(tuple(sys.argv[2:]), 0, 1, 2)) for _ in range(2)]
time.sleep(60)
"""


@pytest.mark.parametrize("moment_s", [0.3, 0.45, 0.6, 2.0])
def test_a_killed_supervisor_takes_its_boxes_along(
    plan: BoxPlan, project: Path, moment_s: float
) -> None:
    """kill -9 of a process with a launcher and two boxes, early and late: nothing stays."""
    kept = project.parent / "plan.json"
    kept.write_text(json.dumps(plan))
    process = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(kept), PYTHON, "-ISc", BEAT],
        stdin=subprocess.DEVNULL,
        env={"PYTHONPATH": str(processes.REPOSITORY), "PATH": processes.PATH},
    )
    time.sleep(moment_s)
    if moment_s > 1:
        wait_for_beat(project)  # so that one of the moments surely is a running box
    process.kill()
    process.wait()
    time.sleep(1.0)
    assert silent(project)


def test_no_descriptor_stays_open(launcher: Launcher, plan: BoxPlan, null: int) -> None:
    """Twenty boxes later this process has as many as after the first."""
    ended(launcher.start(plan, python("", null)))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        ended(launcher.start(plan, python("", null)))
    assert len(os.listdir("/proc/self/fd")) == before
