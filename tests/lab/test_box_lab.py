"""Boxes where every wall holds: a real systemd, as root and as an ordinary user."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from box.boxed import PYTHON, command_line
from lab.labbox import BLOCKED, READ, LabBox
from lab.processes import REPOSITORY
from lab.systemd import SystemdLab

pytestmark = [
    pytest.mark.requires("lab", "scope", "box"),
    pytest.mark.usefixtures("lab_leftovers"),
]

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
BUSY = """
import time
end = time.monotonic() + 1.5
while time.monotonic() < end: pass
print(time.process_time())
"""


@pytest.fixture(params=["bindings", "programs"])
def root_box(lab: SystemdLab, request: pytest.FixtureRequest) -> Iterator[LabBox]:
    """A supervisor that is root, by both transports of scope and table."""
    box = LabBox(lab, None, None, tuple(BLOCKED) if request.param == "programs" else ())
    yield box
    box.close()


@pytest.fixture
def user_box(lab: SystemdLab) -> Iterator[LabBox]:
    """A supervisor without privilege."""
    box = LabBox(lab, lab.uid, lab.uid)
    yield box
    box.close()


def test_memory_is_held(root_box: LabBox) -> None:
    """200 MB under 60 MB: killed, 137, the reason and the peak told; under 600 MB it lives."""
    killed = root_box.python(HOG, "--limit", "memory=60M")
    assert (killed.code, killed.out, killed.status["reason"]) == (137, "", "memory"), killed.err
    assert 40_000_000 < killed.status["peaks"]["memory_bytes"] <= 63_000_000
    assert "memory limit" in killed.err
    lives = root_box.python(HOG, "--limit", "memory=600M")
    assert (lives.code, lives.out, lives.status["reason"]) == (0, "survived\n", "exit")
    assert lives.status["peaks"]["memory_bytes"] > 200_000_000


def test_a_childs_memory_ends_the_whole_box(root_box: LabBox) -> None:
    """The kernel kills one process; the box does not run on without it."""
    code = f"""
import subprocess, sys, time
code = subprocess.run([sys.executable, "-ISc", {HOG!r}]).returncode
time.sleep(5)
open("out/went-on", "w")
"""
    run = root_box.python(code, "--limit", "memory=80M", "--allow", "python3", "--write", "./out")
    assert (run.code, run.status["reason"]) == (137, "memory"), run.err
    assert "went-on" not in root_box.lab.run(["ls", f"{root_box.project}/out"]).stdout


def test_processes_are_held(root_box: LabBox) -> None:
    """``pids`` is the number the agent may have; a box without the cap makes them all."""
    few = root_box.python(FORKS, "--limit", "pids=8")
    assert few.code == 0 and int(few.out) == 7, few.err  # the eighth is the program itself
    assert few.status["peaks"]["pids"] is not None
    assert int(root_box.python(FORKS, "--limit", "pids=100").out) == 30


def test_a_fork_bomb_ends_at_the_wall_limit(root_box: LabBox) -> None:
    """Bounded in number by pids and in time by wall, with nothing left (the fixture looks)."""
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    run = root_box.python(bomb, "--limit", "pids=40", "--limit", "wall=2s")
    assert (run.code, run.status["reason"]) == (137, "wall"), run.err


def test_processor_time_is_held(root_box: LabBox) -> None:
    """A fifth of a core is a fifth of a core, and it is counted."""
    slow = root_box.python(BUSY, "--limit", "cpu=20%")
    assert float(slow.out) < 0.6, slow.err
    assert slow.status["peaks"]["cpu_s"] == pytest.approx(float(slow.out), abs=0.4)
    # A busy machine gives less than a whole core, but more than a fifth.
    assert float(root_box.python(BUSY, "--limit", "cpu=400%").out) > 1.3 * float(slow.out)


def test_the_wall_limit_is_the_supervisors_clock(root_box: LabBox) -> None:
    """With a scope as without: SIGKILL for all at the limit, and the unit is gone."""
    start = time.monotonic()
    code = "import signal, time; signal.signal(15, signal.SIG_IGN); time.sleep(30)"
    run = root_box.python(code, "--limit", "wall=1s", "--limit", "memory=200M")
    assert (run.code, run.status["reason"]) == (137, "wall"), run.err
    assert time.monotonic() - start < 12


def test_the_scope_has_the_program_in_it(root_box: LabBox) -> None:
    """Before its first instruction: the program finds itself in a scope of ours."""
    run = root_box.python("print(open('/proc/self/cgroup').read())", "--limit", "memory=200M")
    assert run.code == 0, run.err
    assert (
        root_box.lab.run(["systemctl", "list-units", "--all", "axonkernel*"]).stdout.count(".scope")
        == 0
    )


def test_the_program_cannot_leave_its_control_group(root_box: LabBox) -> None:
    """No file of the control groups can be written, not even with the whole host granted."""
    code = """
import glob, os
wrote = []
for path in glob.glob("/sys/fs/cgroup/**/cgroup.procs", recursive=True):
    try: open(path, "w").write(str(os.getpid())); wrote.append(path)
    except OSError: pass
print(wrote)
"""
    for options in (READ, ["--open", "fs"]):
        run = root_box.exec(*options, "--limit", "memory=200M", command=[PYTHON, "-ISc", code])
        assert run.out == "[]\n", run.err


@pytest.mark.parametrize("moment_s", [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 1.0])
def test_a_killed_supervisor_leaves_no_scope(root_box: LabBox, moment_s: float) -> None:
    """kill -9 during the launch and the run: processes and units are gone soon after."""
    lab = root_box.lab
    code = "import os, time; os.fork(); time.sleep(60)"
    words = command_line(*READ, "--limit", "memory=200M", command=[PYTHON, "-ISc", code])
    assert root_box.python("", "--limit", "memory=200M").code == 0  # so that nothing is probed
    with lab.popen(words, cwd=root_box.project, env=root_box.env) as process:
        time.sleep(moment_s)
        lab.signal(process, signal.SIGKILL)
        process.wait(20)


def test_root_runs_a_users_project_as_that_user(lab: SystemdLab) -> None:
    """The owner of the write grant, without capabilities; its files are the user's, and what
    only root may read stays closed even where the file wall would let it through."""
    box = LabBox(lab, lab.uid, None)
    try:
        status, wrote, shadow, made = box.attempts(
            ["status"],
            ["write", "out/mine"],
            ["read", "/etc/shadow"],
            ["make", "out/folder"],
            grants=["--write", ".", "--read", "/etc", "--write", "./new/deep"],
        )
        assert status["Uid"].split() == [str(lab.uid)] * 4
        assert int(status["CapEff"], 16) == 0 and status["Groups"] == ""
        assert (wrote, shadow, made) == ("ok", "EACCES", "ok")
        owners = lab.run(
            ["stat", "-c", "%u", *(f"{box.project}/{n}" for n in ("out/mine", "new", "new/deep"))]
        ).stdout.split()
        assert owners == [str(lab.uid)] * 3
        killed = box.exec("--write", ".", "--limit", "memory=60M", command=[PYTHON, "-ISc", HOG])
        assert (killed.code, killed.status["reason"]) == (137, "memory"), killed.err
    finally:
        box.close()


def test_roots_own_project_runs_without_capabilities(root_box: LabBox) -> None:
    """There is nobody else to run it as; the posture says so."""
    (status,) = root_box.attempts(["status"], grants=["--write", "."])
    assert status["Uid"].split()[0] == "0" and int(status["CapEff"], 16) == 0
    run = root_box.exec("--write", ".", command=["/bin/true"])
    (row,) = [row for row in run.status["posture"] if row["field"] == "user"]
    assert "without capabilities" in row["by"]


def test_a_named_user_is_run_as(lab: SystemdLab) -> None:
    """``box.run_as`` by name; one that does not exist is a fault of the policy."""
    box = LabBox(lab, None, None)
    try:
        text = 'default = "deny"\n[box]\nrun_as = "{}"\n[shell]\nallow = ["id"]\n'
        lab.put(f"{box.state}/p.toml", text.format("nobody"))
        run = box.exec("--policy", f"{box.state}/p.toml", command=["id", "-un"])
        assert (run.code, run.out) == (0, "nobody\n"), run.err
        lab.put(f"{box.state}/p.toml", text.format("no-such-user"))
        run = box.exec("--policy", f"{box.state}/p.toml", command=["id", "-un"])
        assert run.code == 78 and "$.box.run_as" in run.err and run.out == ""
    finally:
        box.close()


@pytest.mark.requires("user")
def test_an_ordinary_user_has_the_walls(user_box: LabBox) -> None:
    """Files, programs, privileges, namespaces and network hold without any privilege."""
    answers = user_box.attempts(
        ["read", "a.txt"],
        ["write", "a.txt"],
        ["write", "out/x"],
        ["read", "/etc/shadow"],
        ["spawn", "id"],
        ["call", 272, 0x10000000],
        ["connect", "127.0.0.1", 1],
        ["connect", "45.90.10.1", 443],
        ["status"],
        ["descriptors"],
        grants=[*READ, "--write", "./out"],
    )
    assert answers[:6] == ["text of a", "EROFS", "ok", "ENOENT", "ENOENT", "EPERM"]
    assert (answers[6][0], answers[7][0]) == ("ECONNREFUSED", "ENETUNREACH")
    assert int(answers[8]["CapEff"], 16) == 0 and answers[8]["Seccomp"] == "2"
    assert answers[8]["Uid"].split()[0] == str(user_box.user)
    assert answers[9] == [0, 1, 2]


@pytest.mark.requires("user")
@pytest.mark.usefixtures("lab_internet")
def test_an_ordinary_user_has_a_link(user_box: LabBox) -> None:
    """A granted address is reached through pasta, its neighbour refused, over both ways to
    load a table."""
    tries = [["connect", "45.90.10.1", 443], ["connect", "45.90.10.2", 443]]
    blocked = LabBox(user_box.lab, user_box.user, user_box.user, ("nftables",))
    try:
        for box in (user_box, blocked):
            allowed, refused = box.attempts(*tries, grants=[*READ, "--net", "45.90.10.1:443"])
            assert (allowed[0], refused[0]) == ("ok", "ECONNREFUSED")
    finally:
        blocked.close()


@pytest.mark.requires("user")
def test_an_ordinary_users_limits_hold_or_are_refused(user_box: LabBox) -> None:
    """By the user manager, if it has the controllers; never a silent gap."""
    run = user_box.python(HOG, "--limit", "memory=60M")
    if run.code == 125:
        assert "limits.memory" in run.err and "fix:" in run.err and run.out == ""
    else:
        assert (run.code, run.out, run.status["reason"]) == (137, "", "memory"), run.err


@pytest.mark.requires("user")
def test_without_a_user_bus_limits_are_refused(user_box: LabBox) -> None:
    """No runtime folder, or an empty one: refused in seconds, nothing ran."""
    hole = user_box.lab.folder(user=user_box.user)
    for env in ({"XDG_RUNTIME_DIR": hole, "DBUS_SESSION_BUS_ADDRESS": ""},
                {"XDG_RUNTIME_DIR": "", "DBUS_SESSION_BUS_ADDRESS": ""},
                {"DBUS_SESSION_BUS_ADDRESS": f"unix:path={hole}/bus"}):  # fmt: skip
        start = time.monotonic()
        run = user_box.exec(*READ, "--limit", "memory=60M", command=["/bin/echo", "ran"], env=env)
        assert time.monotonic() - start < 15
        assert run.code == 125 and run.out == "", run.err
        assert "systemd user manager" in run.err and "enable-linger" in run.err
        assert "Traceback" not in run.err
    user_box.lab.run(["rmdir", hole])


KERNEL = """
import json, sys
from axonkernel import Kernel, LimitExceeded
policy = {"fs": {"read": ["."], "write": ["./out"]}, "limits": {"memory": "80M", "pids": 20}}
with Kernel(policy, cwd=".", audit=sys.argv[2]) as kernel:
    try:
        kernel.process.run_sync(["/usr/bin/python3", "-ISc", sys.argv[1]])
    except LimitExceeded as error:
        print(json.dumps([error.kind, error.limit, error.peak]))
    print(kernel.process.run_sync(["/usr/bin/python3", "-ISc", "print('lives')"]).text)
"""


def test_a_kernels_programs_have_the_limits_too(lab: SystemdLab) -> None:
    """process.run raises LimitExceeded with kind, limit and peak; the next call runs."""
    box = LabBox(lab, None, None)
    try:
        done = lab.run(
            [sys.executable, "-c", KERNEL, HOG, f"{box.state}/log"], cwd=box.project, env=box.env
        )
        assert done.returncode == 0, done.stderr
        caught, lives = done.stdout.split()[:-1], done.stdout.split()[-1]
        kind, limit, peak = json.loads(" ".join(caught))
        assert (kind, limit, lives) == ("memory", 80 << 20, "lives")
        assert peak > 40_000_000
    finally:
        box.close()


def test_where_systemd_does_not_run_limits_are_refused(tmp_path: Path) -> None:
    """On a machine without it: exit 125 in less than 5 s, what is missing and how to get it;
    nothing ran, and the same command without limits runs."""
    hide = 'mount -t tmpfs none /run && exec "$@"'
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(REPOSITORY),
           "XDG_CACHE_HOME": str(tmp_path / "c"), "XDG_STATE_HOME": str(tmp_path / "s"),
           "XDG_CONFIG_HOME": str(tmp_path / "f"), "HOME": str(tmp_path)}  # fmt: skip
    project = tmp_path / "project"
    project.mkdir()

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        words = command_line(*READ, *options, command=["/bin/echo", "ran"])
        return subprocess.run(
            ["unshare", "--mount", "sh", "-c", hide, "sh", *words],
            cwd=project, env=env, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip

    assert run().stdout == "ran\n"
    for limit in ("memory=1G", "cpu=50%", "pids=50"):
        start = time.monotonic()
        done = run("--limit", limit)
        assert time.monotonic() - start < 5 + 5  # the probe is made once more before refusing
        assert (done.returncode, done.stdout) == (125, "")
        assert f"limits.{limit.partition('=')[0]}" in done.stderr
        assert "systemd system manager" in done.stderr and "fix:" in done.stderr
    best = run("--best-effort", "--limit", "memory=1G")
    assert best.stdout == "ran\n" and "unenforced: limits.memory" in best.stderr
    assert run("--limit", "wall=20s").stdout == "ran\n"


TOGETHER = """
import concurrent.futures, sys
from axonkernel import Kernel, LimitExceeded

EAT = "import time; b = bytearray(150 << 20); time.sleep(1.5)"
policy = {"limits": {"memory": "220M", "pids": 50}, "fs": {"read": ["/usr"], "write": ["."]}}

def one(kernel):
    try:
        return kernel.process.run_sync(["/usr/bin/python3", "-c", EAT]).exit_code
    except LimitExceeded as error:
        return error.kind

with Kernel(policy, cwd=".", audit=sys.argv[1]) as kernel:
    alone = [one(kernel), one(kernel)]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        together = list(pool.map(one, [kernel, kernel]))
print(alone, together)
"""


def together(lab: SystemdLab, text: str) -> subprocess.CompletedProcess[str]:
    folder = lab.folder()
    lab.put(f"{folder}/together.py", text)
    argv = [sys.executable, f"{folder}/together.py", f"{folder}/audit"]
    return lab.run(argv, cwd=folder, env={"PYTHONPATH": str(REPOSITORY)}, timeout_s=60)


def test_all_calls_of_one_kernel_share_its_limits(lab: SystemdLab) -> None:
    """Two programs that fit one after the other do not fit together: one slice holds both, and
    it is gone with the kernel."""
    ended = together(lab, TOGETHER)
    assert ended.stdout.startswith("[0, 0] ") and "memory" in ended.stdout, ended
    left = lab.run(["systemctl", "list-units", "--plain", "--no-legend", "axonkernel_*"])
    assert left.stdout == ""
