"""Random lines that were allowed, really run in a box with every program start on record.

The box has more programs than the policy that judged the lines: one that a line starts and
should not would run and be seen, not hidden by the program wall.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from axonkernel.blocks import bash_words
from axonkernel.policy.decide import compile
from axonkernel.policy.model import Policy, ShellPolicy
from axonkernel.policy.request import Request
from box.boxed import PYTHON, Boxed
from lab.processes import descendants, find_program
from unit.policy.shell.random_lines import random_line

pytestmark = [pytest.mark.requires("box", "root"), pytest.mark.usefixtures("leftovers")]

#: Programs of our own that do nothing; "no" fails.
OWN = ("a", "b", "c", "no")
WRAPPERS = ("env", "nice", "nohup", "setsid", "stdbuf", "timeout", "xargs")
BUILTINS = tuple(
    "true : echo [ test printf read export declare unset cd command exec builtin".split()
)
FORBIDDEN = ("evil", "x", "y", "f", "E", "i", "1", "2")
_WRAPPED = ("env", "env A=1", "nice -n 1", "nohup", "setsid -w", "stdbuf -oL", "timeout 2", "xargs")
_NAME = re.compile(r"(?<![\w/$=.-])(?:a|b|c|evil)(?![\w/=.-])")

RULES = compile(Policy(shell=ShellPolicy(allow=(*OWN, *WRAPPERS, *BUILTINS), raw=True)))

#: Runs inside the box: says that it is there, waits for lines, runs one after the other.
DRIVER = """
import json, os, shutil, signal, subprocess, sys
print("ready", flush=True)
bash, path, commands = json.loads(sys.stdin.readline())
for words in commands:
    os.mkdir("out/cwd")
    child = subprocess.Popen(
        [bash, *words[1:]], cwd="out/cwd", env={"PATH": path, "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True)
    try:
        child.wait(1)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    child.wait()
    shutil.rmtree("out/cwd", ignore_errors=True)
print("done", flush=True)
"""

#: Names and words as hexadecimal, so that nothing in them looks like the trace itself.
STRACE = (
    "strace", "-f", "-qq", "-xx", "-v", "-s", "100000", "-e", "signal=none",
    "-e", "trace=execve,execveat",
)  # fmt: skip


def _lines(random: Random) -> Iterator[str]:
    """Random lines, some of their programs behind wrappers."""
    while True:
        line = random_line(random)
        if random.random() < 0.5:
            line = _NAME.sub(lambda found: f"{random.choice(_WRAPPED)} {found[0]}", line, count=2)
        yield line


def _allowed(seed: int, count: int) -> list[str]:
    """Those of ``count`` random lines that may run."""
    asked = (Request.shell(line, cwd="/w") for line in islice(_lines(Random(seed)), count))
    return [request.line for request in asked if RULES.decide(request).verdict == "allow"]


def _furnish(box: Boxed) -> Path:
    """A folder of programs, allowed ones and others, and a policy of a box that has them all."""
    programs = box.project / "bin"
    programs.mkdir()
    for name in (*OWN, *FORBIDDEN):
        shutil.copy("/usr/bin/false" if name == "no" else "/usr/bin/true", programs / name)
    allow = [*(f"./bin/{name}" for name in (*OWN, *FORBIDDEN)), *WRAPPERS, "bash", PYTHON]
    policy = {"fs": {"read": ["."], "write": ["./out"]}, "shell": {"allow": allow}}
    (box.project / "policy.json").write_text(json.dumps(policy))
    return programs


def _started(box: Boxed, programs: Path, lines: list[str]) -> list[list[str]]:
    """The words of every program that was started, or tried, while the lines ran in a box."""
    log = box.root / "execve.log"
    bash, path = find_program("bash", "bash"), f"{programs}:/usr/bin:/bin"
    work = json.dumps([bash, path, [bash_words(line) for line in lines]])
    with box.started("--policy", "policy.json", command=[PYTHON, "-ISc", DRIVER]) as process:
        assert process.stdout.readline() == b"ready\n", process.stderr.read().decode()
        # The gate of the box has let go of the driver by now, so that it can be traced.
        driver = _driver(process.pid)
        with subprocess.Popen([*STRACE, "-o", str(log), "-p", str(driver)]) as tracer:
            _await_tracer(tracer.pid, driver)
            process.stdin.write(work.encode() + b"\n")
            process.stdin.close()
            assert process.stdout.read() == b"done\n", process.stderr.read().decode()
            assert process.wait(10) == 0
            tracer.wait(10)
    return list(_read(log))


def _driver(supervisor: int) -> int:
    """The pid that the driver has outside of its box."""
    wanted = "\0".join([PYTHON, "-ISc", DRIVER, ""]).encode()
    (found,) = (
        pid
        for pid in descendants(supervisor)
        if Path(f"/proc/{pid}/cmdline").read_bytes() == wanted
    )
    return found


def _await_tracer(tracer: int, pid: int) -> None:
    deadline = time.monotonic() + 10
    while f"TracerPid:\t{tracer}\n" not in Path(f"/proc/{pid}/status").read_text():
        assert time.monotonic() < deadline, "strace does not attach"
        time.sleep(0.01)


def _read(log: Path) -> Iterator[list[str]]:
    """Path and words of each call in the trace."""
    for line in log.read_text().splitlines():
        found = re.search(r'execve(?:at)?\((?:[^"]*, )?"([^"]*)", \[([^\]]*)\]', line)
        if found is None:
            assert "execve" not in line or "resumed>" in line, line
            continue
        yield [_text(found[1]), *(_text(word) for word in re.findall(r'"([^"]*)"', found[2]))]


def _text(hexed: str) -> str:
    return bytes.fromhex(hexed.replace("\\x", "")).decode(errors="surrogateescape")


def _beyond(started: list[list[str]], lines: list[str]) -> list[list[str]]:
    """What was started that no line may start; the driver's own bash is told by its words."""
    own = {bash_words(line)[1:] for line in lines}
    allowed = {*OWN, *WRAPPERS}
    beyond = []
    for path, _, *words in started:
        name = path.rpartition("/")[2]
        if not (name in allowed or (name == "bash" and tuple(words) in own)):
            beyond.append([path, *words])
    return beyond


def _run_allowed(box: Boxed, seed: int, count: int) -> None:
    programs = _furnish(box)
    lines = _allowed(seed, count)
    started = _started(box, programs, lines)
    assert not _beyond(started, lines)
    ours = [path for path, *_ in started if path.startswith(f"{programs}/")]
    assert len(ours) > count // 20, "hardly anything ran"


def test_allowed_lines_start_only_allowed_programs(box: Boxed) -> None:
    """Of 2,000 random lines those that were allowed, traced from outside of their box."""
    _run_allowed(box, seed=7, count=2_000)


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(10))
@pytest.mark.timeout(1_200)
def test_many_allowed_lines_start_only_allowed_programs(box: Boxed, seed: int) -> None:
    """The same for 100,000 random lines."""
    _run_allowed(box, seed=100 + seed, count=10_000)


def test_the_trace_would_show_another_program(box: Boxed) -> None:
    """Lines that are refused, run all the same: what they start is seen, wherever it hides."""
    programs = _furnish(box)
    lines = ["evil", "a $(evil)", "env A=1 evil", "a | xargs evil", "f() { evil; }; f", "(exec x)"]
    for line in lines:
        assert RULES.decide(Request.shell(line, cwd="/w")).verdict == "deny", line
    beyond = _beyond(_started(box, programs, lines), lines)
    assert [Path(path).name for path, *_ in beyond] == ["evil"] * 5 + ["x"]
