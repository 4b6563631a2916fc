"""Brokered programs through the whole of ``axonkernel exec``: crowds, bytes, deaths, forged calls.

What is judged how is for other tests; here programs are brokered for one rule of each.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from box.boxed import PYTHON, Boxed, Run, command_line
from box.shimmed import WAITS_S, until
from lab.person import Person
from lab.processes import state

pytestmark = pytest.mark.requires("box")

#: Denied words make a program one that is brokered.
POLICY = """
[fs]
write = ["."]
[shell]
allow = ["bash", "cat", "head", "kill", "python3", "sha256sum", "sleep", "tee", "touch", "tty"]
args.cat.deny = ["nothing*"]
args.sleep.deny = ["nothing*"]
args.touch.deny = ["denied*"]
args.tty.deny = ["nothing*"]
"""
#: Starts processes that call ``cat`` again and again; prints how many calls were right.
CROWD = """
import subprocess, sys
code = '''
import subprocess, sys
right = 0
for number in range(int(sys.argv[1])):
    word = f"{sys.argv[2]}-{number}".encode()
    run = subprocess.run(["cat"], input=word, capture_output=True)
    right += (run.returncode, run.stdout, run.stderr) == (0, word, b"")
    if number % 5 == 0:
        run = subprocess.run(["touch", "denied", f"out/{sys.argv[2]}"], capture_output=True)
        right += run.returncode == 126 and b"denied (shell.args)" in run.stderr
print(right)
'''
words = [sys.executable, "-ISc", code, sys.argv[2]]
callers = [
    subprocess.Popen([*words, f"c{number}"], stdout=subprocess.PIPE)
    for number in range(int(sys.argv[1]))
]
print(*(caller.communicate()[0].decode().strip() for caller in callers))
"""
#: Speaks to the broker by hand: prints what came back of each call.
FORGED = """
import json, os, socket, struct, sys
def call(program, found, words, cwd, variables=(), count=3):
    fields = [program, found, cwd, str(len(words)), *words, *variables]
    body = b"".join(os.fsencode(field) + b"\\0" for field in fields)
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect("/run/axonkernel/broker/socket")
        head = struct.pack("<4sII", b"AXB1", len(body), 7)
        socket.send_fds(sock, [head + body], [0, 1, 2][:count])
        said = b""
        try:
            while part := sock.recv(4096):
                said += part
        except ConnectionResetError:
            pass
    last = ["", 0]
    while said:
        kind, value, _, length = struct.unpack("<BBHI", said[:8])
        last, said = [chr(kind), value], said[8 + length:]
    return last
here = os.getcwd()
print(json.dumps([
    call("/usr/bin/touch", "/usr/bin/touch", ["touch", "out/by-hand"], here),
    call("/usr/bin/touch", "/usr/bin/touch", ["touch", "denied", "out/a"], here),
    call("/usr/bin/touch", "/usr/bin/cat", ["cat", "denied", "out/b"], here),
    call("/usr/bin/cat", "/usr/bin/cat", ["touch", "out/c"], here),
    call("/usr/bin/bash", "/usr/bin/bash", ["bash", "-c", ">out/d"], here),
    call("", "", ["bash", "-c", ">out/e"], here),
    call("/usr/bin/touch", "touch", ["touch", "out/f"], here, count=2),
    call(here + "/touch", here + "/touch", ["touch", "out/g"], here),
    call("/usr/bin/touch", "touch", ["touch", "h"], "/etc"),
    call("/usr/bin/touch", "touch", ["touch", "i"], "out/../.."),
]))
"""


@pytest.fixture
def policy(box: Boxed) -> Path:
    """The policy of a project in which programs are brokered."""
    file = box.root / "policy.toml"
    file.write_text(POLICY)
    return file


def run(box: Boxed, policy: Path, *command: str, **settings: Any) -> Run:
    """A command in that box."""
    return box.exec("--policy", policy, "--quiet", command=command, **settings)


def running(word: str) -> list[int]:
    """Processes of this machine that have ``word`` among theirs."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and state(int(entry)) not in ("", "Z", "X"):
            try:
                words = Path(f"/proc/{entry}/cmdline").read_bytes().split(b"\0")
            except (FileNotFoundError, ProcessLookupError):
                continue
            if word.encode() in words:
                found.append(int(entry))
    return found


def sleeping(word: str) -> list[int]:
    """Of these the programs: not bwrap, no supervisor, and no shim, which is smaller."""
    return [pid for pid in running(word) if name_of(pid) == "sleep" and size_of(pid) > 10_000]


def name_of(pid: int) -> str:
    """What a process is called."""
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except (FileNotFoundError, ProcessLookupError):
        return ""


def size_of(pid: int) -> int:
    """Bytes of the file that a process runs."""
    try:
        return os.stat(f"/proc/{pid}/exe").st_size
    except OSError:
        return 0


@pytest.mark.parametrize(
    ("processes", "each"),
    [(4, 5), pytest.param(50, 20, marks=pytest.mark.deep)],
    ids=["20", "1000"],
)
def test_crowds_of_calls(box: Boxed, policy: Path, processes: int, each: int) -> None:
    """Many calls of many processes at one time: each has its own input, output and end, and
    those that are denied among them are denied."""
    words = (PYTHON, "-ISc", CROWD, f"{processes}", f"{each}")
    ended = run(box, policy, *words, timeout_s=900)
    expected = each + (each + 4) // 5
    assert ended.text.split() == [f"{expected}"] * processes, ended.err
    assert not list((box.project / "out").iterdir())
    assert not os.listdir(box.root / "state" / "axonkernel" / "brokers")


@pytest.mark.parametrize(
    "size", [48 << 20, pytest.param(1 << 30, marks=pytest.mark.deep)], ids=["48M", "1G"]
)
def test_bytes_through_a_brokered_program(box: Boxed, policy: Path, size: int) -> None:
    """What goes into a program's input comes out of its output, through two pipes."""
    # Random once, then repeated: making as many would take longer than passing them.
    (box.project / "block").write_bytes(os.urandom(1 << 20))
    code = f"for _ in range({size >> 20}): os.write(1, block)"
    write = f'python3 -ISc \'import os; block = open("block", "rb").read()\n{code}\''
    ended = run(box, policy, "bash", "-c", f"{write} | cat | sha256sum", timeout_s=900)
    expected = hashlib.sha256()
    block = (box.project / "block").read_bytes()
    for _ in range(size >> 20):
        expected.update(block)
    assert ended.text.split()[0] == expected.hexdigest(), ended.err


def test_a_terminal_stays_one(box: Boxed, policy: Path) -> None:
    """At a terminal a brokered program has the box's; with a pipe it has none."""
    command = "tty -s; echo [$?]; tty -s </dev/null; echo [$?]"
    words = command_line("--policy", policy, "--quiet", command=["bash", "-c", command])
    with Person(words, cwd=box.project, env=box.env) as person:
        assert person.ended() == 0
        assert person.seen.split() == ["[0]", "[1]"]


def test_calls_by_hand_get_what_a_shim_gets(box: Boxed, policy: Path) -> None:
    """A forged call is judged as the program it says, run as that or not at all: no word of it
    makes another program run, or the same one elsewhere."""
    ended = run(box, policy, PYTHON, "-ISc", FORGED)
    answers = json.loads(ended.text)
    assert answers[0] == ["E", 0], ended.err
    assert answers[1] == ["R", 126] and answers[2][0] == "R"
    assert answers[3] == ["E", 0] or answers[3] == ["E", 1], "cat ran, with the words of touch"
    assert [kind for kind, _ in answers[4:8]] == ["R", "R", "", "R"]
    assert all(answer[0] in ("R", "E") and answer[1] for answer in answers[8:])
    made = sorted(path.name for path in (box.project / "out").iterdir())
    assert made == ["by-hand"]
    assert not os.path.exists("/etc/h") and not (box.project.parent / "i").exists()


def test_a_killed_shim_ends_its_program(box: Boxed, policy: Path) -> None:
    """The program of a call does not outlive the process that called, though the box lives."""
    script = "sleep 4711.5 & kid=$!; read -r; kill -9 $kid; wait $kid; echo $?; read -r; echo end"
    with box.started("--policy", str(policy), command=["bash", "-c", script]) as process:
        until(lambda: sleeping("4711.5"))
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"137\n"
        until(lambda: not running("4711.5"))
        process.stdin.write(b"\n")
        process.stdin.flush()
        assert process.stdout.read() == b"end\n"


def test_a_killed_supervisor_leaves_nothing(box: Boxed, policy: Path) -> None:
    """With the supervisor both boxes end, the agent's and the program's."""
    with box.started("--policy", str(policy), command=["sleep", "4712.5"]) as process:
        until(lambda: sleeping("4712.5"))
        process.send_signal(signal.SIGKILL)
        until(lambda: not running("4712.5"))


def test_signals_reach_a_brokered_program(box: Boxed, policy: Path) -> None:
    """A program that is asked to end by its caller dies of the signal, and the caller sees it."""
    code = (
        "import subprocess, time; p = subprocess.Popen(['sleep', '4713.5']); "
        "print('up', flush=True); input(); p.terminate(); print(p.wait(), flush=True)"
    )
    with box.started("--policy", str(policy), command=[PYTHON, "-ISc", code]) as process:
        until(lambda: sleeping("4713.5"))
        out, _ = process.communicate(b"\n", WAITS_S)
    assert out.split() == [b"up", f"{-signal.SIGTERM:d}".encode()]
    assert not running("4713.5")
