"""What a box gets as its standard streams: the bytes, and nothing of the file behind them."""

from __future__ import annotations

import os
import random
import socket
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from axonkernel.box.streams import kind_of
from box.boxed import PYTHON, Boxed, command_line

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

READ = ["--read", ".", "--quiet"]


def run(box: Boxed, *command: str, **streams: Any) -> int:
    """``axonkernel exec`` with the given streams."""
    return subprocess.run(
        command_line(*READ, command=command),
        cwd=box.project,
        env=box.env,
        start_new_session=True,
        timeout=60,
        check=False,
        **streams,
    ).returncode


def python(box: Boxed, code: str, **streams: Any) -> int:
    return run(box, PYTHON, "-ISc", code, **streams)


def test_kinds(tmp_path: Path) -> None:
    """Files, folders and terminals are replaced; pipes, sockets and /dev/null are not."""
    (tmp_path / "f").write_text("")
    read, write = os.pipe()
    left, right = socket.socketpair()
    master, slave = os.openpty()
    opened = {
        name: os.open(path, flags)
        for name, path, flags in (
            ("file", tmp_path / "f", os.O_RDWR),
            ("folder", tmp_path, os.O_RDONLY),
            ("null", "/dev/null", os.O_RDWR),
            ("full", "/dev/full", os.O_WRONLY),
            ("named", tmp_path / "f", os.O_PATH),
        )
    }
    kinds = {name: kind_of(fd) for name, fd in opened.items()}
    assert kinds == {"file": "copied", "folder": "none", "null": "itself", "full": "itself",
                     "named": "none"}  # fmt: skip
    assert {kind_of(fd) for fd in (read, write, left.fileno())} == {"itself"}
    assert kind_of(slave) == "terminal" and kind_of(999_999) == "none"
    for fd in (*opened.values(), read, write, master, slave):
        os.close(fd)
    left.close()
    right.close()


def test_a_file_cannot_be_opened_again(box: Boxed, tmp_path: Path) -> None:
    """Neither can what stands in an output be read, nor the input or the front of an output be
    written, through /proc/self/fd; the bytes themselves pass. The same with a program that is
    in no box succeeds."""
    code = """
import os
def again(fd, flags):
    try: return os.open(f"/proc/self/fd/{fd}", flags | os.O_NONBLOCK)
    except OSError: return -1
seen = b""
for fd in (1, 2):
    file = again(fd, os.O_RDONLY)
    try: seen += os.read(file, 100)
    except OSError: pass
file = again(0, os.O_RDWR)
try: os.pwrite(file, b"PLANTED", 0)
except OSError: pass
os.write(1, b"[" + seen + b"]" + os.read(0, 4))
"""
    for boxed in (True, False):
        given, taken = tmp_path / "in", tmp_path / "out.log"
        given.write_text("input")
        taken.write_text("SECRET\n")
        with given.open("r+b") as stdin, taken.open("ab") as out:
            streams = {"stdin": stdin, "stdout": out, "stderr": out}
            if boxed:
                assert python(box, code, **streams) == 0
            else:
                subprocess.run([PYTHON, "-ISc", code], check=True, **streams)  # type: ignore[call-overload]
        said = taken.read_text()
        if boxed:
            assert said == "SECRET\n[]inpu" and given.read_text() == "input"
        else:
            assert "[SECRET" in said and given.read_text() == "PLANTED"


def test_streams_inside_are_pipes(box: Boxed, tmp_path: Path) -> None:
    """Of files on all three, and of a folder as input nothing at all."""
    code = "import os, stat; print([stat.S_IFMT(os.fstat(fd).st_mode) for fd in (0, 1, 2)])"
    out = tmp_path / "out"
    with (box.project / "a.txt").open() as stdin, out.open("w") as stdout:
        assert python(box, code, stdin=stdin, stdout=stdout, stderr=stdout) == 0
    assert out.read_text() == f"{[stat.S_IFIFO] * 3}\n"


def test_files_large_and_binary(box: Boxed, tmp_path: Path) -> None:
    """Twelve million bytes from a file to a file, and appended to one."""
    data = random.Random(7).randbytes(12_000_000)
    given, taken = tmp_path / "in", tmp_path / "out"
    given.write_bytes(data)
    taken.write_bytes(b"front")
    code = "import shutil, sys; shutil.copyfileobj(sys.stdin.buffer, sys.stdout.buffer)"
    with given.open("rb") as stdin, taken.open("ab") as stdout:
        assert python(box, code, stdin=stdin, stdout=stdout) == 0
    assert taken.read_bytes() == b"front" + data
    with given.open("rb") as stdin, taken.open("wb") as stdout:
        assert python(box, code, stdin=stdin, stdout=stdout) == 0
    assert taken.read_bytes() == data


def test_one_file_for_both_outputs_keeps_the_order(box: Boxed, tmp_path: Path) -> None:
    """``> log 2>&1``."""
    code = "import os\nfor n in range(200): os.write(1 + n % 2, b'%d ' % n)"
    taken = tmp_path / "log"
    with taken.open("wb") as out:
        assert python(box, code, stdin=subprocess.DEVNULL, stdout=out, stderr=out) == 0
    assert taken.read_text().split() == [str(n) for n in range(200)]


def test_what_is_not_read_stays_in_the_file(box: Boxed, tmp_path: Path) -> None:
    """A loop of a shell over the lines of a file is not emptied by a boxed command in it."""
    given = tmp_path / "in"
    given.write_bytes(b"line\n" * 100_000)
    with given.open("rb") as stdin:
        assert python(box, "pass", stdin=stdin) == 0
        assert os.lseek(stdin.fileno(), 0, os.SEEK_CUR) == 0
        assert python(box, "import os; os.read(0, 10)", stdin=stdin) == 0
        assert os.lseek(stdin.fileno(), 0, os.SEEK_CUR) == 10
        code = "import sys; sys.exit(len(sys.stdin.buffer.read()) % 251)"
        assert python(box, code, stdin=stdin) == 499_990 % 251


def test_a_full_device(box: Boxed) -> None:
    """The program itself is told that nothing fits on /dev/full."""
    code = """
import os
try: os.write(1, b"x")
except OSError as error: os._exit(error.errno)
"""
    with open("/dev/full", "wb") as full:
        assert python(box, code, stdout=full) == 28


def test_an_output_that_takes_no_more(box: Boxed, tmp_path: Path) -> None:
    """A file that may not grow: the program gets SIGPIPE, and the user is told why."""
    limited = ["prlimit", "--fsize=65536", *command_line(*READ, command=["/usr/bin/yes"])]
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run(
            limited, cwd=box.project, env=box.env, stdout=out, stderr=subprocess.PIPE,
            start_new_session=True, timeout=60, check=False,
        )  # fmt: skip
    assert done.returncode == 141 and b"stdout: File too large" in done.stderr


def test_no_descriptor_passes(box: Boxed) -> None:
    """A folder, a file, a connected socket: whatever the caller holds open, inside are 0, 1
    and 2."""
    folder = os.open(box.project, os.O_RDONLY)
    secret = os.open(box.project / "secret.txt", os.O_RDONLY)
    left, right = socket.socketpair()
    given = (folder, secret, left.fileno())
    answers = box.attempts(["descriptors"], grants=["--read", "."], pass_fds=given)
    assert answers == [[0, 1, 2]]
    left.close()
    right.close()
    os.close(folder)
    os.close(secret)
