"""A boxed command at a terminal: one of its own, which feels like the caller's and is not."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from box.boxed import PYTHON, Boxed, command_line
from lab import processes
from lab.person import Person

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

GRANTS = ["--read", ".", "--write", "./out", "--quiet"]
_ICANON, _ECHO = 0o2, 0o10
SLEEP = "import time; print('up', flush=True); time.sleep(60)"


@contextlib.contextmanager
def at_terminal(
    box: Boxed, *command: str, options: tuple[str, ...] = (), **streams: Any
) -> Iterator[Person]:
    argv = command_line(*GRANTS, *options, command=command)
    with Person(argv, cwd=box.project, env=box.env, **streams) as person:
        yield person


def test_it_is_a_terminal(box: Boxed) -> None:
    """Of the caller's size, with echo and lines; it is the controlling one, and not the
    caller's; that is as it was before when the command has ended."""
    code = """
import os
print([os.isatty(fd) for fd in (0, 1, 2)], *os.get_terminal_size())
tty = os.open("/dev/tty", os.O_RDWR)
print("same" if os.fstat(tty).st_rdev and os.isatty(tty) else "none", os.fstat(0).st_rdev)
print(input("say ")[::-1])
"""
    with at_terminal(box, PYTHON, "-ISc", code) as person:
        person.wait_for("say ")
        assert person.settings() != person.before
        person.type("abc\n")
        assert person.ended() == 0
        assert "[True, True, True] 101 33\r\n" in person.seen
        assert person.seen.endswith("say abc\r\ncba\r\n")
        assert f" {os.fstat(person.slave).st_rdev}\r\n" not in person.seen
        assert person.settings() == person.before


@pytest.mark.parametrize(("key", "name"), [("\x03", "SIGINT"), ("\x1c", "SIGQUIT")])
def test_keys_are_signals_inside(box: Boxed, key: str, name: str) -> None:
    """^C and ^backslash reach the program's handler and nobody else's."""
    code = f"""
import os, signal, time
def caught(number, frame):
    os.write(1, b"caught " + signal.Signals(number).name.encode())
    os._exit(42)
signal.signal(signal.{name}, caught)
os.write(1, b"up")
time.sleep(60)
"""
    with at_terminal(box, PYTHON, "-ISc", code) as person:
        person.wait_for("up")
        person.type(key)
        assert person.ended() == 42 and f"caught {name}" in person.seen


def test_without_a_handler_a_key_ends_the_program(box: Boxed) -> None:
    """^C is 130, and bwrap, which shares the foreground, has not ended of it."""
    code = "import signal; signal.signal(2, signal.SIG_DFL)\n" + SLEEP
    with at_terminal(box, PYTHON, "-ISc", code) as person:
        person.wait_for("up")
        person.type("\x03")
        assert person.ended() == 130


def test_job_control_of_a_shell(box: Boxed) -> None:
    """^Z, jobs, bg, fg and ^C as in any shell; no complaint about a missing terminal."""
    options = ("--allow", "bash", "--allow", "sleep")
    with at_terminal(box, "bash", "--norc", "-i", options=options) as person:
        person.wait_for("# ")
        assert "job control" not in person.seen and "ioctl" not in person.seen
        person.type("sleep 50\n")
        person.wait_for("sleep 50\r\n")
        time.sleep(0.3)  # the sleep has the terminal by then
        person.type("\x1a")
        person.wait_for("Stopped")
        person.type("bg; jobs\n")
        person.wait_for("Running")
        person.type("fg\n")
        person.wait_for("fg\r\nsleep 50")
        time.sleep(0.3)
        person.type("\x03")
        person.type("echo end-$?\n")
        person.wait_for("end-130")
        person.type("exit 5\n")
        assert person.ended() == 5


def test_a_program_that_takes_single_keys(box: Boxed) -> None:
    """Raw mode inside is raw mode: a key is there at once, without an echo."""
    code = """
import os, termios, tty
before = termios.tcgetattr(0)
tty.setraw(0)
os.write(1, b"up")
key = os.read(0, 1)
termios.tcsetattr(0, termios.TCSANOW, before)
print([key])
"""
    with at_terminal(box, PYTHON, "-ISc", code) as person:
        person.wait_for("up")
        person.type("\x03")
        assert person.ended() == 0 and person.seen.endswith("up[b'\\x03']\r\n")


def test_a_new_size_is_passed_on(box: Boxed) -> None:
    """SIGWINCH inside, and the new size."""
    code = """
import os, signal, time
def resized(number, frame):
    os.write(1, b"now %d %d" % os.get_terminal_size())
    os._exit(0)
signal.signal(signal.SIGWINCH, resized)
os.write(1, b"up")
time.sleep(60)
"""
    with at_terminal(box, PYTHON, "-ISc", code) as person:
        person.wait_for("up")
        person.resize(44, 77)
        assert person.ended() == 0 and "now 77 44" in person.seen


def boxed_program(person: Person, word: bytes) -> int:
    """A process below the command whose program has a name."""
    for pid in processes.descendants(person.process.pid):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].endswith(word):
                return pid
    raise AssertionError(word)


@pytest.mark.parametrize("end", ["agent", "bwrap", "limit", "told", "supervisor", "warden"])
def test_the_terminal_is_restored(box: Boxed, end: str) -> None:
    """However the run ends: SIGKILL of the program, of bwrap, the wall limit, SIGTERM, SIGKILL
    of the supervisor or of the warden."""
    options = ("--limit", "wall=2s") if end == "limit" else ()
    with at_terminal(box, PYTHON, "-ISc", SLEEP, options=options) as person:
        person.wait_for("up")
        assert not person.settings()[3] & _ECHO
        match end:
            case "agent":
                os.kill(boxed_program(person, b"python3"), signal.SIGKILL)
            case "bwrap":
                os.kill(boxed_program(person, b"bwrap"), signal.SIGKILL)
            case "warden":
                os.kill(processes.parents()[boxed_program(person, b"bwrap")], signal.SIGKILL)
            case "supervisor":
                person.process.kill()
            case "told":
                person.process.terminate()
        person.ended()
        deadline = time.monotonic() + 5
        while person.settings() != person.before and time.monotonic() < deadline:
            time.sleep(0.02)
        assert person.settings() == person.before


def test_nothing_is_typed_for_the_caller(box: Boxed) -> None:
    """TIOCSTI and TIOCLINUX fail on the box's terminal, and the caller's shell gets no word.
    Outside a box, as root, TIOCSTI types (the twin)."""
    code = """
import errno, fcntl, os
for name in ("/proc/self/fd/0", "/dev/tty", "/dev/console"):
    fd = os.open(name, os.O_RDWR)
    for request, data in ((0x5412, b"x"), (0x541C, b"\\x03")):
        try: fcntl.ioctl(fd, request, data); print("typed")
        except OSError as error: print(errno.errorcode[error.errno])
"""
    with at_terminal(box, PYTHON, "-ISc", code) as person:
        assert person.ended() == 0
        assert person.seen.count("EPERM") == 6 and "typed" not in person.seen
        assert not select.select([person.slave], [], [], 0.2)[0]
    twin = "import fcntl; fcntl.ioctl(0, 0x5412, b'x'); fcntl.ioctl(0, 0x5412, b'\\n')"
    with Person([sys.executable, "-ISc", twin], cwd=box.project, env=box.env) as person:
        assert person.ended() == 0
        assert select.select([person.slave], [], [], 5)[0]


def test_the_callers_terminal_is_nowhere_inside(box: Boxed) -> None:
    """No descriptor and no device of the box leads to it."""
    code = """
import os, stat
found = {os.fstat(fd).st_rdev for fd in range(3)}
for folder in ("/dev", "/dev/pts"):
    for name in os.listdir(folder):
        status = os.lstat(f"{folder}/{name}")
        if stat.S_ISCHR(status.st_mode): found.add(status.st_rdev)
print(sorted(found))
"""
    with at_terminal(box, PYTHON, "-ISc", code) as person:
        assert person.ended() == 0, person.seen
        devices = eval(person.seen)
        assert devices and os.fstat(person.slave).st_rdev not in devices


def test_in_a_pipeline_the_terminal_is_left_alone(box: Boxed) -> None:
    """With the output in a pipe the caller's settings stay; lines and ^D go in."""
    code = """
import sys
print("up", file=sys.stderr, flush=True)
print([sys.stdin.isatty(), sys.stdout.isatty()], [line for line in sys.stdin])
"""
    with at_terminal(box, PYTHON, "-ISc", code, stdout=subprocess.PIPE) as person:
        person.wait_for("up")
        assert person.settings() == person.before
        person.type("one\ntwo\n\x04")
        assert person.ended() == 0
        assert person.process.stdout is not None
        assert person.process.stdout.read() == b"[True, False] ['one\\n', 'two\\n']\n"
        assert "up\r\n" in person.seen and "\r\r" not in person.seen


def test_keys_for_a_pager_are_the_pagers(box: Boxed) -> None:
    """While somebody else has the terminal read single keys, none is taken from them."""
    with at_terminal(box, PYTHON, "-ISc", SLEEP, stdout=subprocess.PIPE) as person:
        settings = person.settings()
        settings[3] &= ~_ICANON
        person.set(settings)
        assert person.process.stdout is not None and person.process.stdout.read(2) == b"up"
        person.type("q")
        time.sleep(0.5)
        assert os.read(person.slave, 10) == b"q"


def test_output_alone(box: Boxed) -> None:
    """``echo x | axonkernel exec``: colours and sizes are right, each line ends once."""
    code = "import os, sys; print(sys.stdin.read(), os.isatty(1), os.get_terminal_size().columns)"
    with at_terminal(box, PYTHON, "-ISc", code, stdin=subprocess.DEVNULL) as person:
        assert person.ended() == 0
        assert person.seen == " True 101\r\n" and person.settings() == person.before


def test_in_the_background_of_a_shell(box: Boxed) -> None:
    """``axonkernel exec ... &`` runs on instead of being stopped for touching the terminal."""
    words = " ".join(map(str, command_line(*GRANTS, command=["/usr/bin/echo", "ran"])))
    shell = ["bash", "--norc", "-i"]
    with Person(shell, cwd=box.project, env=box.env) as person:
        person.wait_for("# ")
        person.type(f"{words} & wait; echo st''atus-$?\n")
        person.wait_for("status-0")
        assert "ran\r\n" in person.seen and "Stopped" not in person.seen


def test_stopped_and_continued(box: Boxed) -> None:
    """SIGTSTP stops the program and its supervisor, with the terminal as it was; SIGCONT has
    both go on."""
    code = """
import time
while True:
    with open("out/beat", "a") as file: file.write("x")
    print("up", flush=True)
    time.sleep(0.02)
"""
    beat = box.project / "out/beat"

    def beats() -> bool:
        before = beat.stat().st_size
        time.sleep(0.3)
        return beat.stat().st_size != before

    def until(state: str) -> None:
        deadline = time.monotonic() + 10
        while processes.state(person.process.pid) != state:
            assert time.monotonic() < deadline
            time.sleep(0.02)

    with at_terminal(box, PYTHON, "-ISc", code) as person:
        person.wait_for("up")
        person.process.send_signal(signal.SIGTSTP)
        until("T")
        assert not beats() and person.settings() == person.before
        person.process.send_signal(signal.SIGCONT)
        until("S")
        deadline = time.monotonic() + 10
        while not beats():  # the program hears of it a moment after its supervisor
            assert time.monotonic() < deadline
        assert person.settings() != person.before
        person.type("\x03")
        assert person.ended() == 130
