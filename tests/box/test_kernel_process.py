"""Programs a kernel starts run in a box of their own, under the very policy of the call."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from axonkernel import Kernel, LimitExceeded, PolicyDenied
from axonkernel.audit.verify import verify

pytestmark = pytest.mark.box

SECRET = "KEY-9f3b"


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "out").mkdir(parents=True)
    (folder / "a.txt").write_text("text of a")
    (folder / "secret.txt").write_text(SECRET)
    return folder


@pytest.fixture
def kernel(ws: Path, tmp_path: Path) -> Iterator[Kernel]:
    policy = {
        "fs": {"read": ["."], "write": ["./out"], "deny": ["./secret.txt"]},
        "shell": {
            "allow": ["cat", "cp", "grep", "tar", "sh", "sleep", "touch", "head", "env", "bash"],
            "spawn": True,
        },
        "env": {"allow": ["MODE"]},
    }
    with Kernel(policy, cwd=ws, audit=tmp_path / "log") as kernel:
        yield kernel
    assert verify(tmp_path / "log") == ()


def test_a_program_runs_in_a_box(kernel: Kernel) -> None:
    """Its output and exit code come back, with the walls that held."""
    result = kernel.process.run_sync(["cat", "a.txt"])
    assert (result.exit_code, result.text) == (0, "text of a")
    assert {"fs", "shell", "env", "seccomp"} <= set(result.held_by)
    assert kernel.process.run_sync(["sh", "-c", "exit 7"]).exit_code == 7
    assert kernel.process.run_sync(["sh", "-c", "kill -TERM $$"]).exit_code == 143


READERS: dict[str, list[str]] = {
    "cat": ["cat", "{}"],
    "shell": ["sh", "-c", "cat < {}"],
    "glob": ["sh", "-c", "cat [s]ecret.tx? a.tx[t]"],
    "grep": ["grep", "-r", ".", "."],
    "tar": ["tar", "-c", "."],
    "copy": ["sh", "-c", "cp -r . /tmp/c; cat /tmp/c/*.txt"],
}


@pytest.mark.parametrize("route", READERS)
def test_a_masked_file_is_masked_on_every_route(kernel: Kernel, route: str) -> None:
    """The mediator's rule and the box agree: the secret is in no output, its neighbour is."""
    for name in ("secret.txt", "a.txt"):
        command = [word.replace("{}", name) for word in READERS[route]]
        result = kernel.process.run_sync(command)
        assert SECRET not in result.text + result.error_text
    assert "text of a" in result.text


def test_python_blocks_are_boxed(kernel: Kernel, ws: Path) -> None:
    """Model-written code reads what is granted and nothing else."""
    read = "import sys; print(open(sys.stdin.read() or {!r}).read())"
    assert kernel.run_block_sync("python", read.format("a.txt")).text == "text of a\n"
    for path in ("secret.txt", "/etc/shadow"):
        result = kernel.run_block_sync("python", read.format(path))
        assert result.exit_code == 1 and SECRET not in result.text + result.error_text
    assert kernel.run_block_sync("python", "open('out/f', 'w').write('x')").ok
    assert not kernel.run_block_sync("python", "open('b.txt', 'w').write('x')").ok
    assert (ws / "out" / "f").read_text() == "x" and not (ws / "b.txt").exists()


def test_narrowing_holds_below_the_mediator(kernel: Kernel) -> None:
    """Inside a narrowed block a program's box has the narrowed grants."""
    with kernel.narrow({"fs": {"read": ["./out"]}}):
        narrowed = kernel.process.run_sync(["sh", "-c", "cat ../a.txt a.txt"], cwd="out")
        assert "text of a" not in narrowed.text
    assert kernel.process.run_sync(["cat", "a.txt"]).text == "text of a"


def test_the_environment_is_built_from_nothing(
    kernel: Kernel, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only what is let in; a .env file in the folder is not read."""
    (ws / ".env").write_text("DB=secret")
    text = kernel.process.run_sync(["env"], env={"MODE": "x"}).text
    names = {line.partition("=")[0] for line in text.splitlines()}
    assert "MODE=x" in text and "GIT_TERMINAL_PROMPT=0" in text
    assert not names & {"DB", "PYTHONPATH", "OLDPWD", "SUDO_USER"}


def test_a_call_returns_when_its_program_has_ended(kernel: Kernel) -> None:
    """A grandchild that holds the pipe neither delays the call nor outlives it."""
    start = time.monotonic()
    assert kernel.process.run_sync(["sh", "-c", "(sleep 10 &); exit 0"]).ok
    assert time.monotonic() - start < 4


def test_the_timeout_and_the_wall_limit_end_a_box(kernel: Kernel, ws: Path) -> None:
    """Both are LimitExceeded, in time."""
    start = time.monotonic()
    with pytest.raises(LimitExceeded) as caught:
        kernel.process.run_sync(["sleep", "30"], timeout=0.5)
    assert (caught.value.kind, caught.value.limit) == ("wall", 0.5)
    policy = {"fs": {"read": ["."]}, "limits": {"wall": "1s"}}
    with (
        Kernel(policy, cwd=ws, audit=ws.parent / "log2") as other,
        pytest.raises(LimitExceeded) as caught,
    ):
        other.process.run_sync(["sleep", "30"])
    assert (caught.value.kind, caught.value.limit) == ("wall", 1.0)
    assert time.monotonic() - start < 10


def test_a_flood_is_capped(kernel: Kernel) -> None:
    """The first bytes are kept and the program ends as it would."""
    result = kernel.process.run_sync(["sh", "-c", "head -c 50000000 /dev/zero; exit 3"])
    assert (len(result.stdout), result.exit_code) == (10 * 1024 * 1024, 3)
    assert result.stdout_truncated


@pytest.mark.parametrize("stream", ["", ">&2"])
def test_a_declared_output_limit_ends_the_box(ws: Path, stream: str) -> None:
    """1 GB: LimitExceeded(output) and the box ended long before; what stays below is returned."""
    policy = {"fs": {"read": ["."], "write": ["./out"]}, "limits": {"output": "1M"}}
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with Kernel(policy, cwd=ws, audit=ws.parent / "log") as limited:
        run = limited.process.run_sync
        with pytest.raises(LimitExceeded) as caught:
            run(["sh", "-c", f"head -c 1000000000 /dev/zero {stream}; touch out/went-on"])
        assert (caught.value.kind, caught.value.limit) == ("output", 1 << 20)
        assert not (ws / "out/went-on").exists()
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000
        result = run(["sh", "-c", f"head -c 1000000 /dev/zero {stream}; touch out/went-on"])
        assert len(result.stdout + result.stderr) == 1_000_000 and (ws / "out/went-on").exists()
    records = [json.loads(line) for line in (ws.parent / "log").read_text().splitlines()]
    ended = [record for record in records if record["kind"].startswith("process.")]
    assert [(e.get("limit"), e.get("reason")) for e in ended] == [("output", None), (None, "exit")]
    assert ended[1]["cpu_s"] > 0


def test_an_endless_flood_ends_at_the_timeout(kernel: Kernel) -> None:
    """``cat /dev/zero`` where no output limit is declared: little memory here, and an end."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(LimitExceeded) as caught:
        kernel.process.run_sync(["cat", "/dev/zero"], timeout=1.0)
    assert caught.value.kind == "wall"
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000


def test_input_reaches_a_boxed_program(kernel: Kernel) -> None:
    """And is empty unless given."""
    assert kernel.process.run_sync(["cat"]).stdout == b""
    data = b"x" * 1_000_000
    assert kernel.process.run_sync(["cat"], input=data).stdout == data


def test_a_cancelled_call_takes_its_box_along(kernel: Kernel, ws: Path) -> None:
    """The box's program stops writing when the caller is gone."""
    code = "while :; do echo x >> out/beat; sleep 0.05; done"

    async def main() -> None:
        with anyio.move_on_after(1.5):
            await kernel.process.run(["sh", "-c", code])

    anyio.run(main)
    time.sleep(0.5)
    beats = (ws / "out" / "beat").stat().st_size
    time.sleep(0.5)
    assert beats > 0 and (ws / "out" / "beat").stat().st_size == beats


def test_a_spawned_box_ends_with_the_kernel(kernel: Kernel, ws: Path) -> None:
    """It runs beside the caller and stops when the kernel is closed."""
    code = "while :; do echo x >> out/beat; sleep 0.05; done"
    spawned = kernel.process.spawn_sync(["sh", "-c", code])
    deadline = time.monotonic() + 5
    while not (ws / "out" / "beat").exists():
        assert time.monotonic() < deadline and spawned.running
        time.sleep(0.02)
    kernel.close()
    assert not spawned.running
    beats = (ws / "out" / "beat").stat().st_size
    time.sleep(0.3)
    assert (ws / "out" / "beat").stat().st_size == beats


def test_a_denied_call_starts_no_box(kernel: Kernel, ws: Path) -> None:
    """The mediator's denial comes first, and nothing runs."""
    for command in (["rm", "a.txt"], [sys.executable, "-c", "open('out/m', 'w')"]):
        with pytest.raises(PolicyDenied):
            kernel.process.run_sync(command)
    assert (ws / "a.txt").exists() and not (ws / "out" / "m").exists()


def test_boxes_run_side_by_side(kernel: Kernel) -> None:
    """Ten at once, each with its own output."""
    texts: dict[int, Any] = {}

    async def one(n: int) -> None:
        texts[n] = (await kernel.process.run(["sh", "-c", f"sleep 0.2; echo {n}"])).text

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for n in range(10):
                group.start_soon(one, n)

    anyio.run(main)
    assert texts == {n: f"{n}\n" for n in range(10)}


def test_no_descriptor_leaks(kernel: Kernel) -> None:
    """Boxed runs, failures and timeouts leave the process as it was."""
    kernel.process.run_sync(["cat", "a.txt"])
    before = len(list(Path("/proc/self/fd").iterdir()))
    for _ in range(3):
        kernel.process.run_sync(["cat"], input=b"x")
        with pytest.raises(LimitExceeded):
            kernel.process.run_sync(["sleep", "9"], timeout=0.2)
    assert len(list(Path("/proc/self/fd").iterdir())) == before
