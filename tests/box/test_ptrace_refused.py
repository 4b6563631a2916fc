"""Where ptrace is refused a box is made all the same, and says what that costs."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from box.boxed import PYTHON, Boxed, command_line
from lab import processes
from lab.agents import Project
from lab.person import Person

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

#: Become a program for which every ptrace fails, as in many containers.
REFUSING = """
import errno, os, pyseccomp, sys
refusing = pyseccomp.SyscallFilter(pyseccomp.ALLOW)
refusing.add_rule(pyseccomp.ERRNO(errno.EPERM), "ptrace")
refusing.load()
os.execv(sys.argv[1], sys.argv[1:])
"""
PREFIX = [sys.executable, "-c", REFUSING]
READ = ["--read", ".", "--write", "./out"]
STATUS = "print(open('/proc/self/status').read())"


@pytest.fixture
def box(tmp_path: Path) -> Boxed:
    """With a cache of its own: what this machine can do is another thing without ptrace."""
    boxed = Boxed(tmp_path, tmp_path / "cache")
    (boxed.project / "out").mkdir()
    (boxed.project / "a.txt").write_text("text of a")
    boxed.prefix = PREFIX
    return boxed


def test_a_command_is_boxed_and_the_posture_tells(box: Boxed) -> None:
    """Every wall but the gate: namespaces, no capabilities, a filter beside the one outside;
    ``release`` is unenforced, with the reason. With ptrace it is enforced (the twin)."""
    run = box.exec(*READ, command=[PYTHON, "-ISc", STATUS])
    assert run.code == 0, run.err
    inside = dict(line.split(":\t", 1) for line in run.text.splitlines() if ":\t" in line)
    assert int(inside["CapEff"], 16) == 0 and inside["NoNewPrivs"] == "1"
    assert (inside["Seccomp"], inside["Seccomp_filters"]) == ("2", "2")
    rows = {row["field"]: row for row in run.status["posture"]}
    assert rows["release"]["state"] == "unenforced" and "ptrace" in rows["release"]["note"]
    assert "unenforced: release" in run.err
    assert rows["fs"]["state"] == rows["seccomp"]["state"] == "enforced"
    box.prefix = ()
    box.env["XDG_CACHE_HOME"] = str(box.root / "other")
    twin = box.exec(*READ, command=[PYTHON, "-ISc", STATUS])
    assert {row["field"]: row for row in twin.status["posture"]}["release"]["state"] == "enforced"
    assert "Seccomp_filters:\t1\n" in twin.text


def test_its_walls_hold(box: Boxed) -> None:
    """What is denied with the gate is denied without."""
    answers = box.attempts(
        ["read", "a.txt"], ["read", "/etc/shadow"], ["sock", 38, 5, 0], ["write", "a.txt", "x"],
        grants=READ,
    )  # fmt: skip
    assert (answers[0], answers[1], answers[3]) == ("text of a", "ENOENT", "EROFS")
    assert answers[2] in ("EPERM", "EAFNOSUPPORT")


def test_exit_codes_signals_and_ends(box: Boxed) -> None:
    """The program's own code, 127 and 126, signals, the wall limit, and no process left; a
    program that ends at once is not missed."""
    for code in (0, 7, 255):
        run = box.exec(*READ, command=[PYTHON, "-ISc", f"import os; os._exit({code})"])
        assert (run.code, run.status["reason"]) == (code, "exit")
    for _ in range(5):
        assert box.exec(*READ, command=["/usr/bin/true"]).code == 0
    assert box.exec(*READ, command=["./absent"]).code == 127
    (box.project / "text").write_text("x")
    assert box.exec(*READ, command=["./text"]).code == 126
    own = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    assert box.exec(*READ, command=[PYTHON, "-ISc", own]).code == 143
    sleep = "import os, time; os.fork() or os.setsid(); time.sleep(60)"
    run = box.exec(*READ, "--limit", "wall=1s", command=[PYTHON, "-ISc", sleep])
    assert (run.code, run.status["reason"]) == (137, "wall")


def test_a_killed_supervisor_takes_the_box_along(box: Boxed) -> None:
    """SIGKILL while it runs."""
    code = "import time; open('out/ready', 'w').write('x')\nwhile True: time.sleep(1)"
    argv = [*PREFIX, *command_line(*READ, "--quiet", command=[PYTHON, "-ISc", code])]
    process = processes.start(argv, cwd=box.project, env=box.env, stderr=subprocess.PIPE)
    with process:
        deadline = time.monotonic() + 20
        while not (box.project / "out/ready").exists():
            assert time.monotonic() < deadline and process.poll() is None, process.communicate()
            time.sleep(0.02)
        process.send_signal(signal.SIGKILL)


def test_strict_refuses(box: Boxed) -> None:
    """``isolation = "strict"`` wants the gate; nothing ran. ``auto`` runs (the twin)."""
    for isolation, code in (("strict", 125), ("auto", 0)):
        policy = box.root / "p.toml"
        policy.write_text(
            f'isolation = "{isolation}"\ndefault = "deny"\n[fs]\nread = ["."]\n'
            f'write = ["{box.project}/out"]\n'
        )
        name = f"out/{isolation}"
        make = [PYTHON, "-ISc", f"open('{name}', 'w')"]
        run = box.exec("--policy", str(policy), command=make)
        assert run.code == code, run.err
        assert (box.project / name).exists() == (code == 0)
        assert code == 0 or "ptrace" in run.err


def test_keys_at_a_terminal_still_end_a_program(box: Boxed) -> None:
    """Without a controlling terminal inside, ^C is passed on from outside."""
    code = "import time; print('up', flush=True); time.sleep(60)"
    argv = [*PREFIX, *command_line(*READ, "--quiet", command=[PYTHON, "-ISc", code])]
    with Person(argv, cwd=box.project, env=box.env) as person:
        person.wait_for("up")
        person.type("\x03")
        assert person.ended() == 130 and person.settings() == person.before


def refusing(
    argv: Sequence[Any], *, cwd: Path, env: Mapping[str, str], timeout_s: float
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PREFIX, *argv], cwd=cwd, env=dict(env), timeout=timeout_s, capture_output=True,
        text=True, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def test_an_agent_looks_around_itself(tmp_path: Path) -> None:
    """For ``run`` the first code inside is the gate: the posture says so, and the agent works."""
    project = Project(tmp_path / "home", run=refusing)
    project.agent({"fs": {"write": ["./out"]}}, "return [request['prompt'], errno_of(open, '/x')]")
    ended = project.run_agent("hi")
    assert ended.value == ["hi", "ENOENT"]
    row = next(r for r in project.records() if r["kind"] == "box.start")["posture"]
    assert next(r for r in row if r[0] == "release")[1:3] == [
        "enforced",
        "checked by the first code in the box",
    ]


def test_doctor_tells(box: Boxed) -> None:
    """The gate is absent, with its cost and its cure; everything but ``strict`` can be held."""
    words = [sys.executable, "-m", "axonkernel", "doctor", "--json"]
    done = subprocess.run(
        [*PREFIX, *words], env=box.env, capture_output=True, timeout=100, check=False
    )
    pieces = {piece["name"]: piece for piece in json.loads(done.stdout)["pieces"]}
    assert not pieces["gate"]["ok"] and pieces["gate"]["missing"] == "ptrace"
    assert pieces["gate"]["optional"] and pieces["gate"]["fields"] == ["release"]
    assert pieces["box"]["ok"] and "ptrace" in pieces["gate"]["fix"]
