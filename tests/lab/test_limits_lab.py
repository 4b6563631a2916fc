"""Limits of whole boxes in the lab's systemd: what is told, what is swept, what is missing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from box.boxed import PYTHON, command_line
from lab import processes
from lab.agents import Project
from lab.labbox import READ, LabBox
from lab.processes import REPOSITORY
from lab.systemd import SystemdLab

pytestmark = [
    pytest.mark.requires("lab", "scope", "box"),
    pytest.mark.usefixtures("lab_leftovers"),
]

ENV = {"PYTHONPATH": str(REPOSITORY)}
HOG = "x = b'x' * 200_000_000; print('survived')"
FORKS = """
import os, time
made = 0
try:
    while made < 30:
        if os.fork() == 0: time.sleep(0.5); os._exit(0)
        made += 1
except BlockingIOError: pass
print(made)
"""


@pytest.fixture
def box(lab: SystemdLab) -> Iterator[LabBox]:
    """A supervisor that is root, with every binding."""
    made = LabBox(lab, None, None)
    yield made
    made.close()


def python(lab: SystemdLab, code: str, *arguments: str, user: int | None = None) -> str:
    """What a program in the lab printed, which may use axonkernel."""
    done = lab.run([sys.executable, "-c", code, *arguments], env=ENV, user=user)
    assert done.returncode == 0, done.stderr
    return done.stdout


def units(lab: SystemdLab) -> set[str]:
    words = "systemctl list-units --all --plain --no-legend axonkernel-* axonkernel_*".split()
    return {line.split()[0] for line in lab.run(words).stdout.splitlines()}


# -- what is told -----------------------------------------------------------------------


def test_refused_processes_are_told(box: LabBox) -> None:
    """A fork that failed for the cap is counted; where none failed nothing is said."""
    few = box.python(FORKS, "--limit", "pids=8")
    assert few.status["peaks"]["refused_pids"] > 0 and "limits.pids was reached" in few.err, few.err
    many = box.python(FORKS, "--limit", "pids=100")
    assert many.status["peaks"]["refused_pids"] == 0 and "limits.pids was reached" not in many.err
    assert many.status["reason"] == "exit" and many.status["peaks"]["cpu_s"] > 0


def test_a_kill_for_memory_is_memory_whatever_the_program_makes_of_it(box: LabBox) -> None:
    """One that ends well at once, after its child was killed, is over its limit as well."""
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-ISc', {HOG!r}])"
    run = box.python(code, "--limit", "memory=80M", "--allow", "python3")
    assert (run.code, run.status["reason"]) == (137, "memory"), run.err
    assert run.status["peaks"]["memory_bytes"] > 40_000_000


KERNEL = """
import json, sys
from axonkernel import Kernel, LimitExceeded
policy = {"fs": {"read": ["."]}, "limits": {"memory": "80M", "pids": 8}}
python = ["/usr/bin/python3", "-ISc"]
with Kernel(policy, cwd=".", audit="log") as kernel:
    try:
        kernel.process.run_sync([*python, sys.argv[1]])
    except LimitExceeded as error:
        print(error.kind, error.peak > 40_000_000)
    forks = kernel.process.run_sync([*python, sys.argv[2]])
    print("limits.pids" in str(forks.notes), forks.used.peak_memory_bytes > 1_000_000,
          forks.used.peak_pids > 2)
"""


def test_every_call_tells_what_it_used_in_result_and_record(box: LabBox) -> None:
    """Reason, peak and processor time: in the error or the result, and in the audit log."""
    done = box.lab.run([sys.executable, "-c", KERNEL, HOG, FORKS], cwd=box.project, env=box.env)
    assert done.stdout.split() == ["memory", "True", "True", "True", "True"], done
    lines = box.lab.get(f"{box.project}/log").splitlines()
    failed, ended = (r for r in map(json.loads, lines) if r["kind"].startswith("process."))
    assert (failed["limit"], failed["most"]) == ("memory", 80 << 20)
    assert failed["peak"] > 40_000_000
    assert ended["reason"] == "exit" and ended["cpu_s"] > 0 and ended["peak_pids"] > 2


@pytest.mark.parametrize(
    ("body", "limits", "reason"),
    [(HOG, {"memory": "100M"}, "memory"),
     ("time.sleep(60)", {"memory": "300M", "wall": "2s"}, "wall"),
     ("return 1", {"memory": "300M"}, "exit")],
)  # fmt: skip
def test_the_end_of_an_agents_box_is_recorded(
    lab: SystemdLab, body: str, limits: dict[str, str], reason: str
) -> None:
    """Its record has the reason, the peak of memory and the processor time."""
    project = Project(Path(lab.folder()), lab.run, lab.put)
    project.agent({"fs": {"read": ["."]}, "limits": limits}, body)
    ended = project.run_agent()
    assert ended.code == (0 if reason == "exit" else 137), ended.err
    log = lab.get(project.home / "state/axonkernel/audit.jsonl").splitlines()
    (record,) = [each for each in map(json.loads, log) if each["kind"] == "box.end"]
    assert record["result"]["reason"] == reason
    assert record["result"]["cpu_s"] > 0 and record["result"]["peak_memory_bytes"] > 1_000_000
    lab.run(["rm", "-rf", project.home])


# -- the wall limit is kept twice ---------------------------------------------------------


@pytest.mark.deep
def test_a_stopped_supervisor_does_not_lift_the_wall_limit(box: LabBox) -> None:
    """With supervisor and warden stopped systemd ends the box; woken up, they say why."""
    code = "import time; open('out/started', 'w'); time.sleep(30); open('out/woke', 'w')"
    words = command_line(
        *READ, "--write", "./out", "--limit", "wall=1s", "--limit", "memory=200M",
        "--json-status", "2", "--quiet", command=[PYTHON, "-ISc", code],
    )  # fmt: skip
    pipe = subprocess.PIPE
    with box.lab.popen(words, cwd=box.project, env=box.env, stderr=pipe, text=True) as process:
        root = Path(f"/proc/{box.lab.leader}/root{box.project}/out")
        deadline = time.monotonic() + 20
        while not (root / "started").exists() and time.monotonic() < deadline:
            time.sleep(0.02)
        supervisor = box.lab.pid(process)
        warden = next(p for p, parent in processes.parents().items() if parent == supervisor)
        for pid in (supervisor, warden):
            os.kill(pid, signal.SIGSTOP)
        while time.monotonic() < deadline and any(
            "sleep(30)" in line and "exec" not in line for line in box.lab.processes().values()
        ):
            time.sleep(0.1)
        assert processes.state(warden) == "T" and time.monotonic() < deadline
        for pid in (warden, supervisor, process.pid):  # nsenter stops with its child
            os.kill(pid, signal.SIGCONT)
        assert process.stderr is not None
        told = json.loads(process.stderr.read().splitlines()[-1])
        process.wait(20)
    assert told["reason"] == "wall" and told["exit"] in (137, 143)
    assert (root / "started").exists() and not (root / "woke").exists()


# -- what is swept ----------------------------------------------------------------------

NAMES = "from axonkernel.box import scope; print(scope.slice_name(), scope.scope_name())"
HELD = f"{NAMES[:-1]}, flush=True); input()"
CALL = """
from axonkernel import Kernel
policy = {"limits": {"memory": "300M"}, "fs": {"read": ["."]}}
with Kernel(policy, cwd="/usr", audit="/dev/null") as kernel:
    print(kernel.process.run_sync(["/usr/bin/true"]).exit_code)
"""


def start_units(lab: SystemdLab, slice: str, unit: str) -> None:
    """A slice, and a scope with a process that sleeps."""
    lab.run(["systemctl", "start", slice])
    command = f"setsid systemd-run --quiet --scope --unit={unit} sleep 300 >/dev/null 2>&1 &"
    lab.run(["sh", "-c", command])
    deadline = time.monotonic() + 10
    while unit not in units(lab) and time.monotonic() < deadline:
        time.sleep(0.05)


def test_what_killed_supervisors_left_is_swept(lab: SystemdLab, box: LabBox) -> None:
    """Slices and scopes of processes that are gone end with the next launch, by ``exec`` as by
    a kernel; those of a supervisor that lives stay."""
    with lab.popen(
        [sys.executable, "-c", HELD],
        env=ENV, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as alive:  # fmt: skip
        assert alive.stdout is not None and alive.stdin is not None
        kept = alive.stdout.readline().split()
        start_units(lab, *kept)
        for launch in ("kernel", "exec"):
            gone = python(lab, NAMES).split()
            start_units(lab, *gone)
            assert units(lab) >= {*kept, *gone}
            if launch == "kernel":
                assert python(lab, CALL) == "0\n"
            else:
                run = box.exec(*READ, "--limit", "memory=300M", command=["/bin/true"])
                assert run.code == 0, run.err
            assert units(lab) == set(kept)
        lab.run(["systemctl", "stop", *kept])
        alive.stdin.write("\n")


def test_a_tree_killed_during_its_launch_leaves_nothing_for_long(box: LabBox) -> None:
    """Supervisor, warden and bwrap killed at once, at many moments: after the next launch no
    unit is left."""
    words = command_line(*READ, "--limit", "memory=200M", command=["/bin/sleep", "60"])
    assert box.exec(*READ, "--limit", "memory=200M", command=["/bin/true"]).code == 0
    for moment_s in (0.08, 0.1, 0.12, 0.14, 0.16, 0.18, 0.2, 0.24, 0.3):
        with box.lab.popen(words, cwd=box.project, env=box.env) as process:
            time.sleep(moment_s)
            box.lab.kill(process)
    assert box.exec(*READ, "--limit", "memory=200M", command=["/bin/true"]).code == 0
    deadline = time.monotonic() + 5
    while (left := units(box.lab)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == set()


def test_kernels_at_once_leave_each_other_alone(lab: SystemdLab) -> None:
    """Four kernels start, call and end at the same time: every call runs, and nothing is left."""
    script = 'for i in 1 2 3 4; do "$0" -c "$1" & done; wait'
    done = lab.run(["sh", "-c", script, sys.executable, CALL * 3], env=ENV)
    assert done.stdout.split() == ["0"] * 12, done.stderr
    assert units(lab) == set()


# -- what is missing --------------------------------------------------------------------


@pytest.mark.parametrize("address", ["nonsense", "unix:path=/nonexistent", "tcp:host=::1,port=1"])
def test_root_with_a_wrong_bus_is_refused(box: LabBox, address: str) -> None:
    """Nothing ran, and the fix is named; the same command with the right bus runs."""
    env = {"DBUS_SYSTEM_BUS_ADDRESS": address, "XDG_CACHE_HOME": f"{box.state}/other"}
    options = [*READ, "--limit", "memory=60M"]
    run = box.exec(*options, command=["/bin/echo", "ran"], env=env)
    assert (run.code, run.out) == (125, ""), run.err
    assert "systemd system manager" in run.err and "systemctl start dbus" in run.err
    assert box.exec(*options, command=["/bin/echo", "ran"]).out == "ran\n"


PROXY = """
import os, socket, threading
from axonkernel import Kernel

pairs = []

def pump(source, sink):
    try:
        while data := source.recv(65536):
            sink.sendall(data)
    except OSError:
        pass

def serve(listener):
    while True:
        near, far = listener.accept()[0], socket.socket(socket.AF_UNIX)
        far.connect("/run/dbus/system_bus_socket")
        pairs.append((near, far))
        for each in ((near, far), (far, near)):
            threading.Thread(target=pump, args=each, daemon=True).start()

listener = socket.socket(socket.AF_UNIX)
listener.bind("bus")
listener.listen()
threading.Thread(target=serve, args=(listener,), daemon=True).start()
os.environ["DBUS_SYSTEM_BUS_ADDRESS"] = f"unix:path={os.path.abspath('bus')}"
policy = {"limits": {"memory": "300M"}, "fs": {"read": ["."]}}
with Kernel(policy, cwd=".", audit="log") as kernel:
    print(kernel.process.run_sync(["/usr/bin/true"]).exit_code, flush=True)
    for near, far in pairs:
        near.shutdown(socket.SHUT_RDWR)
    threading.Event().wait(0.5)
    print(kernel.process.run_sync(["/usr/bin/true"]).exit_code)
"""


def test_a_bus_that_restarts_ends_no_supervisor(box: LabBox) -> None:
    """Its connection is closed under a kernel: the process lives and the next call has its
    limits, over a new one."""
    done = box.lab.run([sys.executable, "-c", PROXY], cwd=box.project, env=box.env)
    assert (done.returncode, done.stdout) == (0, "0\n0\n"), done.stderr


@pytest.mark.parametrize(
    "command",
    [["node", "-e", "console.log('ran')"], ["java", "-version"], [PYTHON, "-c", "print('ran')"]],
    ids=lambda command: Path(command[0]).name,
)
def test_programs_that_reserve_much_memory_run_under_a_limit(
    box: LabBox, command: list[str]
) -> None:
    """What is limited is memory in use, not address space: gigabytes reserved cost nothing."""
    name = Path(command[0]).name
    run = box.exec(*READ, "--allow", name, "--limit", "memory=512M", command=command)
    assert run.code == 0 and run.status["reason"] == "exit", run.err
