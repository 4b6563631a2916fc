"""Files as the streams of a brokered program: it gets pipes, and the shim copies.

A file that was passed on could be started through /proc where the program's own box starts none.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from axonkernel.broker.listener import Incoming
from axonkernel.broker.wire import Ended, Refused
from box.boxed import Boxed
from box.shimmed import Shimmed, runs

pytestmark = pytest.mark.requires("box")

#: What each stream is for the program.
KINDS = """
import os, stat
kinds = [stat.filemode(os.fstat(fd).st_mode)[0] for fd in (0, 1, 2)]
os.write(1, f"{kinds} {os.fstat(0).st_rdev == os.stat('/dev/null').st_rdev}\\n".encode())
"""


@pytest.fixture
def shimmed(tmp_path: Path) -> Iterator[Shimmed]:
    """``prog WORDS`` runs ``WORDS`` outside; ``prog no`` is refused."""

    def answer(incoming: Incoming) -> Refused | Ended:
        for descriptor in incoming.files:
            assert not stat.S_ISREG(os.fstat(descriptor).st_mode), "no file comes through"
            assert not stat.S_ISDIR(os.fstat(descriptor).st_mode), "no folder comes through"
        if incoming.argv[1:2] == ("no",):
            return Refused(126, "no")
        return runs(incoming, incoming.argv[1:])

    with Shimmed(tmp_path, answer) as made:
        (made.work / "lines").write_text("".join(f"line {number}\n" for number in range(9)))
        yield made


def shell(shimmed: Shimmed, line: str) -> tuple[int, bytes, bytes]:
    """What became of a line of bash in which ``prog`` is the shim."""
    run = shimmed.run(["bash", "-c", f"PATH={shimmed.bin}:$PATH; {line}"])
    return run.returncode, run.stdout, run.stderr


def test_the_program_gets_pipes(shimmed: Shimmed) -> None:
    """For files it gets pipes, for folders /dev/null, all else is what it was."""
    (shimmed.work / "kinds.py").write_text(KINDS)
    see = f"prog {shlex.quote(sys.executable)} kinds.py"
    assert shell(shimmed, f"{see} <lines >out 2>>out; cat out")[1] == b"['p', 'p', 'p'] False\n"
    assert shell(shimmed, f"{see} </ 2>/dev/full | cat")[1] == b"['c', 'p', 'c'] True\n"
    assert shell(shimmed, f"cat lines | {see} | cat")[1] == b"['p', 'p', 'p'] False\n"


def test_what_was_not_read_is_left(shimmed: Shimmed) -> None:
    """Whoever reads the file next goes on where the program stopped, not where the shim did."""
    assert shell(shimmed, "{ prog sh -c 'read -r x; read -r y'; prog cat; } <lines")[1] == (
        b"".join(b"line %d\n" % number for number in range(2, 9))
    )
    assert shell(shimmed, "{ prog true; prog no; head -n 1; } <lines")[1] == b"line 0\n"


def test_output_into_files(shimmed: Shimmed) -> None:
    """New, at the end, and both outputs into one in the order in which they were written."""
    assert shell(shimmed, "prog echo one >out; prog echo two >>out; cat out")[1] == b"one\ntwo\n"
    both = "for n in 1 2 3; do echo out $n; echo err $n >&2; done"
    expected = b"".join(b"out %d\nerr %d\n" % (number, number) for number in (1, 2, 3))
    assert shell(shimmed, f"prog sh -c '{both}' >out 2>&1; cat out")[1] == expected
    line = "prog sh -c 'echo o; echo e >&2; exit 5' >out 2>err; echo $?; cat err out"
    assert shell(shimmed, line)[1] == b"5\ne\no\n"


def test_a_program_whose_children_keep_its_output(shimmed: Shimmed) -> None:
    """What was written before the program ended is in the file, also where a pipe stays open."""
    line = "prog sh -c 'sleep 30 & echo done' >out; cat out; kill $(cat pid)"
    line = line.replace("sleep 30 &", "sleep 30 & echo $! >pid;")
    assert shell(shimmed, line)[1] == b"done\n"


def test_a_refused_program_reads_and_writes_nothing(shimmed: Shimmed) -> None:
    """The file of its input stays where it was, and the line about it is in the file of errors."""
    assert shell(shimmed, "prog no <lines >out 2>err; echo $?; cat out err") == (
        0,
        b"126\naxonkernel: no\n",
        b"",
    )


def test_a_file_that_cannot_be_written(shimmed: Shimmed) -> None:
    """The caller is told, and the status of the program is not success."""
    code, _, err = shell(shimmed, "exec 5<lines; prog echo text >&5")
    assert (code, b"not all of the program's output could be written" in err) == (1, True)
    assert shell(shimmed, "prog echo text >out") == (0, b"", b"")


@pytest.mark.parametrize(
    "size", [48 << 20, pytest.param(1 << 30, marks=pytest.mark.deep)], ids=["48M", "1G"]
)
def test_large_files(shimmed: Shimmed, size: int) -> None:
    """From file to file, whole and unchanged."""
    source, target = shimmed.work / "source", shimmed.work / "target"
    block = os.urandom(1 << 20)
    with source.open("wb") as file:
        for _ in range(size >> 20):
            file.write(block)
    assert shell(shimmed, "prog cat <source >target") == (0, b"", b"")
    assert target.stat().st_size == size
    with source.open("rb") as one, target.open("rb") as two:
        assert (
            hashlib.file_digest(one, "sha256").digest()
            == hashlib.file_digest(two, "sha256").digest()
        )


#: Starts its standard input, and what lies beside it.
STARTS = """
import os, subprocess, sys
def tried(path):
    try:
        return subprocess.run([path, "started"], stdin=0, stdout=subprocess.PIPE).stdout.decode()
    except OSError as error:
        return type(error).__name__
print([tried("./program"), tried("/proc/self/fd/0"), tried(f"/proc/{os.getpid()}/fd/0")])
"""


def test_a_file_cannot_be_started_through_its_descriptor(box: Boxed) -> None:
    """In the box of a brokered program nothing starts that was written, by its path or as its
    standard input; the box that calls starts both."""
    (box.project / "program").write_bytes(Path("/usr/bin/echo").read_bytes())
    (box.project / "program").chmod(0o755)
    (box.project / "starts.py").write_text(STARTS)
    policy = box.root / "policy.toml"
    answers = {}
    for rules in ("", '\nargs."/usr/bin/python3".deny = ["nothing*"]'):
        policy.write_text(
            '[fs]\nwrite = ["."]\n[shell]\nallow = ["bash", "/usr/bin/python3"]' + rules
        )
        run = box.exec(
            "--policy",
            policy,
            "--quiet",
            command=["bash", "-c", "/usr/bin/python3 -IS starts.py <program"],
        )
        answers[rules == ""] = run.text.strip()
        assert run.code == 0, run.err
    started, denied = "'started\\n'", "'PermissionError'"
    assert answers[True] == f"[{started}, {started}, {started}]"
    assert answers[False] == f"[{denied}, {denied}, {denied}]"
