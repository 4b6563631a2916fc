"""However a process with a kernel comes to its end, nothing of it stays."""

from __future__ import annotations

import contextlib
import glob
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from axonkernel import Kernel, LimitExceeded, ToolError
from lab import processes
from lab.agents import Project
from lab.lacking import without
from lab.processes import REPOSITORY

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

POLICY = {"fs": {"read": ["."], "write": ["./out"]}, "shell": {"allow": ["sh", "true"]}}
#: A program that is busy for as long as it lives, and says so.
BEAT = "while :; do echo x >> out/beat; sleep 0.02; done"
SCRIPT = """
import os, sys, threading, time
from axonkernel import Kernel
policy = {policy!r}
policy["isolation"] = sys.argv[1]
kernel = Kernel(policy, audit="../log")
assert kernel.process.run_sync(["true"]).ok
busy = threading.Thread(target=lambda: kernel.process.run_sync(["sh", "-c", {beat!r}]), daemon=True)
{then}
"""
STARTED = """
busy.start()
while not os.path.exists("out/beat"): time.sleep(0.01)
print("started", flush=True)
"""
ENDS = {
    "without close": "",
    "an exception": "raise ValueError('end')",
    "an exception while busy": f"{STARTED}\nraise ValueError('end')",
    "exit while busy": f"{STARTED}\nsys.exit(3)",
    "_exit while busy": f"{STARTED}\nos._exit(3)",
    "interrupted": (
        "print('started', flush=True)\n"
        f"try: kernel.process.run_sync(['sh', '-c', {BEAT!r}])\n"
        "finally: kernel.close()"
    ),
    "killed": f"{STARTED}\ntime.sleep(60)",
}
QUICK = {
    "auto": ("without close", "interrupted", "killed"),
    "best-effort": ("exit while busy", "killed"),
}
SIGNALS = {"interrupted": signal.SIGINT, "killed": signal.SIGKILL}
CODES = {"without close": 0, "interrupted": -2, "killed": -9}


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "out").mkdir(parents=True)
    return folder


def private_folders() -> set[str]:
    return set(glob.glob("/tmp/axonkernel-*"))


def every_end() -> Iterator[Any]:
    """Each end by each road; the quick tests have one of each kind."""
    for isolation, quick in QUICK.items():
        for how in ENDS:
            marks = [] if how in quick else [pytest.mark.deep]
            marks += [pytest.mark.root] if isolation == "best-effort" else []
            yield pytest.param(isolation, how, marks=marks)


@pytest.mark.parametrize(("isolation", "how"), list(every_end()))
def test_nothing_outlives_the_process(ws: Path, isolation: str, how: str) -> None:
    """No program, server, spare or private folder, in boxes and by the zygote; the program was
    busy until then."""
    before = private_folders()
    (ws / "end.py").write_text(SCRIPT.format(policy=POLICY, beat=BEAT, then=ENDS[how]))
    argv = [sys.executable, "end.py", isolation]
    process = subprocess.Popen(
        argv if isolation == "auto" else without("user namespaces", argv),
        cwd=ws,
        # A home of its own: what was found out about this machine is not true of every road.
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "HOME": str(ws.parent)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    if how in SIGNALS:
        assert process.stdout is not None and process.stdout.readline() == b"started\n"
        deadline = time.monotonic() + 10
        while not (ws / "out/beat").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(SIGNALS[how])
    _, errors = process.communicate(timeout=30)
    code = CODES.get(how, 1 if "exception" in how else 3)
    assert process.returncode == code, errors.decode()
    time.sleep(0.1)
    beat = ws / "out/beat"
    if "busy" in how or how in SIGNALS:
        size = beat.stat().st_size
        time.sleep(0.1)
        assert size > 0 and beat.stat().st_size == size
    deadline = time.monotonic() + 3
    while private_folders() - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert private_folders() - before == set()


def own_state() -> tuple[int, int, set[int]]:
    """Threads, descriptors and children (zombies too) of this process."""
    with open(f"/proc/self/task/{os.getpid()}/children") as file:
        children = set(map(int, file.read().split()))
    return threading.active_count(), len(os.listdir("/proc/self/fd")), children


def test_a_closed_kernel_leaves_its_process_as_it_was(ws: Path) -> None:
    """After runs, a timeout, a block and a spawned program: threads, descriptors, children."""
    policy = {**POLICY, "shell": {"allow": ["sh", "true"], "spawn": True}}
    before: tuple[int, int, set[int]] = (0, 0, set())
    for _ in range(2):  # what is loaded and opened once for all stays
        before = own_state()
        with Kernel(policy, cwd=ws, audit=ws.parent / "log") as kernel:
            assert kernel.process.run_sync(["true"]).ok
            with pytest.raises(LimitExceeded):
                kernel.process.run_sync(["sh", "-c", BEAT], timeout=0.2)
            assert kernel.run_block_sync("python", "pass").ok
            kernel.process.spawn_sync(["sh", "-c", BEAT])
    assert own_state() == before


SLEEPER = {"allow": ["sh", "sleep"], "spawn": False}


@pytest.mark.parametrize("policy", [{**POLICY, "shell": SLEEPER}, {"shell": SLEEPER}])
def test_a_program_that_outlasts_close_leaves_nothing_either(
    ws: Path, policy: dict[str, Any]
) -> None:
    """What another thread waits for goes on to its end, and nothing is started anew for it."""
    with Kernel(policy, cwd=ws, audit=ws.parent / "log") as kernel:
        found: list[int] = []

        def wait() -> None:
            words = ["sh", "-c", ": > out/started; sleep 0.5; exit 5"]
            result = kernel.process.run_sync(words)
            found.append(result.exit_code)

        thread = threading.Thread(target=wait)
        thread.start()
        while not (ws / "out/started").exists():
            time.sleep(0.01)
    thread.join()
    assert found == [5]


#: Leaves its session and its parent, ignores every signal it can, and beats on.
ESCAPE = """
import os, signal, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in range(1, 65):
            try: signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError): pass
        for fd in range(3): os.close(fd)
        open(sys.argv[1] + ".pid", "w").write(str(os.getpid()))
        while True:
            open(sys.argv[1], "a").write("x")
            time.sleep(0.02)
    os._exit(0)
while not os.path.exists(sys.argv[1]): time.sleep(0.01)
try: os.kill(0, signal.SIGUSR1)
finally: pass
"""


def goes_on(beat: Path) -> bool:
    size = beat.stat().st_size
    time.sleep(0.15)
    return beat.stat().st_size > size


def test_nothing_outlives_a_call_without_any_wall(ws: Path) -> None:
    """``spawn: false`` alone, without a box: a daemon that left its session and its parent ends
    with the call, which says so; with ``spawn`` it goes on. A program that signals its own
    group ends itself and not its guard."""
    python = os.path.realpath(sys.executable)
    for spawn in (False, True):
        policy = {"shell": {"allow": [python], "spawn": spawn}}
        beat = ws / f"beat-{spawn}"
        with Kernel(policy, cwd=ws, audit=ws.parent / "log") as kernel:
            result = kernel.process.run_sync([python, "-ISc", ESCAPE, str(beat)])
        assert result.exit_code == 128 + signal.SIGUSR1
        assert ("background process ended by kernel" in result.notes) == (not spawn)
        assert goes_on(beat) == spawn
    os.kill(int(Path(f"{beat}.pid").read_text()), signal.SIGKILL)


def test_nothing_outlives_a_call_in_an_agents_box(tmp_path: Path) -> None:
    """The same there, where no box can be made for the call."""
    python = os.path.realpath(sys.executable)
    project = Project(tmp_path / "home")
    project.write("src/escape.py", ESCAPE)
    body = f"""
notes = []
for name in "ab":
    argv = [{python!r}, "-ISc", open("src/escape.py").read(), "out/" + name]
    done = await kernel.process.run(argv)
    size = os.stat("out/" + name).st_size
    time.sleep(0.15)
    notes.append([done.exit_code, list(done.notes), os.stat("out/" + name).st_size > size])
return notes
"""
    policy = {"fs": {"read": ["./src"], "write": ["./out"]}, "shell": {"allow": [python]}}
    for spawn in (False, True):
        project.agent({**policy, "shell": {"allow": [python], "spawn": spawn}}, body)
        ended = project.run_agent()
        assert ended.code == 0, ended.err
        notes = [] if spawn else ["background process ended by kernel"]
        assert ended.value == [[128 + signal.SIGUSR1, notes, spawn]] * 2
        for name in "ab":
            for path in (f"out/{name}", f"out/{name}.pid"):
                (project.folder / path).unlink()


def kill_helpers() -> int:
    """Kill all that the exec zygote of this process is made of; how many there were."""
    killed = 0
    for pid in processes.descendants(os.getpid()):
        with contextlib.suppress(OSError):  # it has ended with its guard
            if b"exec_zygote" in Path(f"/proc/{pid}/cmdline").read_bytes():
                os.kill(pid, signal.SIGKILL)
                killed += 1
                while processes.state(pid) not in ("", "X", "Z"):
                    time.sleep(0.005)
    time.sleep(0.1)  # what was forked meanwhile ends too
    return killed


def test_killed_helpers_are_replaced(ws: Path) -> None:
    """The zygote and every lane that waits: the next call has new ones."""
    policy = {"shell": {"allow": ["sh", "true"], "spawn": False}}
    with Kernel(policy, cwd=ws, audit=ws.parent / "log") as kernel:
        for _ in range(3):
            assert kernel.process.run_sync(["true"]).ok
            assert kill_helpers() >= 2
        assert kernel.process.run_sync(["sh", "-c", "exit 3"]).exit_code == 3


def test_a_program_ends_with_its_guard(ws: Path) -> None:
    """It is no result when the guard was killed, and the program beats no more."""
    policy = {"shell": {"allow": ["sh", "sleep"], "spawn": False}}
    with Kernel(policy, cwd=ws, audit=ws.parent / "log") as kernel:

        def kill() -> None:
            while not (ws / "out/beat").exists():
                time.sleep(0.01)
            kill_helpers()

        thread = threading.Thread(target=kill)
        thread.start()
        with pytest.raises(ToolError, match="guard"):
            kernel.process.run_sync(["sh", "-c", BEAT])
        thread.join()
        assert not goes_on(ws / "out/beat")
