"""The shim of a brokered program is, to its caller, the program: real processes, a real socket.

The listener answers here by running programs beside the tests; boxes are for others to test.
"""

from __future__ import annotations

import hashlib
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from axonkernel.broker.listener import Incoming
from axonkernel.broker.wire import Ended, Refused
from axonkernel.errors import PolicyDenied
from box.shimmed import Shimmed, runs

pytestmark = pytest.mark.requires("box")

#: Prints what a program can see of its call.
SEEN = """
import json, os, sys
print(json.dumps([os.getcwd(), os.environ.get("FROM"), sys.stdin.isatty(), sys.stdout.isatty()]))
"""
LOOK = """
import os, sys
names = [os.readlink(f'/proc/self/fd/{fd}') for fd in (0, 1, 2)]
open('seen', 'w').write(chr(10).join(names))
sys.exit(9)
"""
CLOSES = """
import subprocess, sys
closes = "exec <&- >&-; exec sleep 100"
pipe = subprocess.PIPE
shim = subprocess.Popen([sys.argv[1], "sh", "-c", closes], stdin=pipe, stdout=pipe)
print(shim.stdout.read() == b"" and shim.poll() is None)
try:
    while True:
        shim.stdin.write(b"x")
        shim.stdin.flush()
except BrokenPipeError:
    print(shim.poll() is None)
shim.kill()
print(shim.wait())
"""


@pytest.fixture
def calls() -> list[Incoming]:
    """What the supervisor was asked."""
    return []


@pytest.fixture
def shimmed(tmp_path: Path, calls: list[Incoming]) -> Iterator[Shimmed]:
    """``prog WORDS`` runs ``WORDS`` outside; ``prog no ...`` is denied."""

    def answer(incoming: Incoming) -> Refused | Ended:
        calls.append(incoming)
        if incoming.argv[1:2] == ("no",):
            raise PolicyDenied("shell.args", " ".join(incoming.argv[1:]))
        return runs(incoming, incoming.argv[1:] or ["true"])

    with Shimmed(tmp_path, answer, ("prog", "other")) as made:
        yield made


def test_words_of_any_bytes_and_the_rest_of_the_call(
    shimmed: Shimmed, calls: list[Incoming]
) -> None:
    """Words, folder, variables and the names of the program arrive as they are."""
    every = bytes(range(1, 256))
    words = [b"", every, b"\n", "é☃".encode(), b"--x=\xff"]
    (shimmed.bin / "alias").symlink_to("other")
    run = shimmed.run(["alias", "/bin/true", *words], env={"FROM": "caller", "PATH": "/nowhere"})
    assert (run.returncode, run.stdout, run.stderr) == (0, b"", b"")
    (call,) = calls
    assert [os.fsencode(word) for word in call.argv[1:]] == [b"/bin/true", *words]
    assert call.cwd == str(shimmed.work)
    assert (call.env["FROM"], call.env["PATH"]) == ("caller", "/nowhere")
    assert call.program == str(shimmed.bin / "other"), "links are resolved by the kernel"
    assert call.found == call.argv[0] == str(shimmed.bin / "alias")


def test_the_first_word_is_the_callers_but_not_the_program(
    shimmed: Shimmed, calls: list[Incoming]
) -> None:
    """A forged argv[0] is seen beside the path that the kernel started."""
    code = f"import os; os.execv('{shimmed.bin}/prog', ['git', 'true'])"
    assert shimmed.run([sys.executable, "-c", code]).returncode == 0
    assert (calls[0].argv[0], calls[0].program) == ("git", str(shimmed.bin / "prog"))


def test_program_sees_folder_variables_and_descriptors(shimmed: Shimmed) -> None:
    """What the program is given is what its caller has."""
    run = shimmed.run(["prog", sys.executable, "-c", SEEN], env={"FROM": "caller"})
    assert json.loads(run.stdout) == [str(shimmed.work), "caller", False, False]


@pytest.mark.parametrize("code", [0, 1, 7, 125, 126, 127, 129, 255])
def test_exit_status_is_the_programs(shimmed: Shimmed, code: int) -> None:
    """Every status comes back as it is, those that have a meaning elsewhere too."""
    assert shimmed.run(["prog", "sh", "-c", f"exit {code}"]).returncode == code


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGPIPE])
def test_dies_of_the_signal_that_ended_the_program(shimmed: Shimmed, number: int) -> None:
    """The caller sees the same death, as of its own child."""
    code = f"import subprocess; print(subprocess.run(['{shimmed.bin}/prog', 'sh', '-c', "
    code += f"'kill -{number:d} $$']).returncode)"
    assert shimmed.run([sys.executable, "-c", code]).stdout == f"{-number:d}\n".encode()


def test_a_denial_is_one_line_and_126(shimmed: Shimmed, tmp_path: Path) -> None:
    """What is refused does not run and says so; the same without the word does run."""
    marker = tmp_path / "marker"
    run = shimmed.run(["prog", "no", "touch", str(marker)])
    assert run.returncode == 126 and run.stdout == b""
    assert run.stderr.startswith(b"axonkernel: denied (shell.args): no touch ")
    assert b"The call did not run." in run.stderr and run.stderr.count(b"\n") == 1
    assert not marker.exists()
    assert shimmed.run(["prog", "touch", str(marker)]).returncode == 0
    assert marker.exists()


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1), (0, 1, 2)])
def test_closed_descriptors_are_the_null_device(shimmed: Shimmed, closed: tuple[int, ...]) -> None:
    """A call without some of its descriptors gets through, and only those are /dev/null."""
    closes = " ".join(f"{fd}>&-" for fd in closed)
    look = f'{shlex.quote(sys.executable)} -c "{LOOK}"'
    run = shimmed.run(["sh", "-c", f"exec {shimmed.bin}/prog {look} {closes}"], input=b"")
    assert run.returncode == 9, run
    seen = (shimmed.work / "seen").read_text().splitlines()
    assert [name == "/dev/null" for name in seen] == [fd in closed for fd in (0, 1, 2)]


def test_a_terminal_is_one_for_the_program(shimmed: Shimmed) -> None:
    """isatty is true through the shim: it is the same terminal."""
    leader, follower = pty.openpty()
    try:
        run = shimmed.run(
            ["prog", sys.executable, "-c", SEEN],
            stdin=follower,
            stdout=follower,
            stderr=follower,
            capture_output=False,
        )
        assert run.returncode == 0
        assert json.loads(os.read(leader, 4096))[2:] == [True, True]
    finally:
        os.close(leader)
        os.close(follower)


def test_readers_see_the_end_of_a_pipe_at_once(shimmed: Shimmed) -> None:
    """Neither shim nor supervisor hold a pipe that the program has closed."""
    run = shimmed.run([sys.executable, "-c", CLOSES, shimmed.bin / "prog"])
    assert run.stdout.split() == [b"True", b"True", b"-9"], run.stderr


@pytest.mark.parametrize(
    "size", [48 << 20, pytest.param(1 << 30, marks=pytest.mark.deep)], ids=["48M", "1G"]
)
def test_bytes_through_input_and_output(shimmed: Shimmed, size: int) -> None:
    """What goes in comes out, all of it and unchanged."""
    write = f"import os\nfor _ in range({size >> 20}): os.write(1, os.urandom(16) * 65536)"
    # Two hashes of one stream, in front of the shim and behind it.
    python = shlex.quote(sys.executable)
    command = f"{python} -c '{write}' | tee in | {shimmed.bin}/prog cat | sha256sum"
    run = shimmed.run(["bash", "-c", command], timeout=600)
    with (shimmed.work / "in").open("rb") as file:
        sent = hashlib.file_digest(file, "sha256").hexdigest()
        assert file.seek(0, os.SEEK_END) == size
    assert run.stdout.split()[0].decode() == sent


def test_calls_at_the_limits(shimmed: Shimmed, calls: list[Incoming]) -> None:
    """Ten thousand words run, one more does not; nor does a call over one MiB."""
    # bwrap itself takes no more than 9000.
    code = f"import os; os.execv('{shimmed.bin}/prog', ['prog', 'true'] + WORDS)"
    most = code.replace("WORDS", "['w'] * 9_998")
    assert shimmed.run([sys.executable, "-c", most]).returncode == 0
    assert len(calls[0].argv) == 10_000
    for words, told in (("['w'] * 9_999", b"over 10000 words"), ("['w' * 70000] * 16", b"1 MiB")):
        run = shimmed.run([sys.executable, "-c", code.replace("WORDS", words)])
        assert run.returncode == 126 and told in run.stderr
        assert run.stderr.endswith(b"The call did not run.\n")
    assert len(calls) == 1
    run = shimmed.run([sys.executable, "-c", code.replace("WORDS", "['w' * 70000] * 14")])
    assert run.returncode == 0


def test_no_supervisor(shimmed: Shimmed, tmp_path: Path) -> None:
    """A supervisor that has ended, and none at all, are told apart from a denial."""
    prog = str(shimmed.bin / "prog")
    shimmed.listener.close()
    for run in (
        shimmed.run(["prog", "true"]),
        subprocess.run([prog, "true"], capture_output=True, timeout=60),
    ):
        assert run.returncode == 125
        assert b"no supervisor answers" in run.stderr and b"did not run" in run.stderr
