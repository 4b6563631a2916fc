"""Programs through the kernel: judged word by word, run as they were judged."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from axonkernel import Kernel, LimitExceeded, PolicyDenied, ToolError
from unit.memory import MemoryAudit

Make = Callable[..., Kernel]


def _shell(*allow: str, **more: object) -> dict[str, object]:
    return {"shell": {"allow": list(allow), **more}}


def _alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state not in "ZX"


def test_an_allowed_program_runs(make: Make, audit: MemoryAudit, ws: Path) -> None:
    """In the kernel's folder; its end is recorded under its decision."""
    result = make(_shell("pwd")).process.run_sync(["pwd"])
    assert result.text == f"{ws}\n"
    assert audit.kinds() == ["decision", "process.ended"]
    assert audit.records[1]["decision_id"] == "r1"


def test_a_denied_program_does_not_run(make: Make, ws: Path) -> None:
    """An unlisted program leaves no trace; neither does one spelled as a path."""
    kernel = make(_shell("pwd"))
    for command in (["touch", "m"], ["/usr/bin/touch", "m"], "touch m", ["./touch", "m"]):
        with pytest.raises(PolicyDenied) as caught:
            kernel.process.run_sync(command)
        assert caught.value.code == "shell.program"
    assert not (ws / "m").exists()


def test_a_workspace_file_is_not_the_program_of_its_name(make: Make, ws: Path) -> None:
    """``./ls`` and a PATH entry in the workspace never stand in for ``ls``."""
    fake = ws / "out" / "ls"
    fake.write_text("#!/bin/sh\ntouch owned\n")
    fake.chmod(0o755)
    kernel = make(_shell("ls"))
    for name in ("./ls", str(fake), "out/ls"):
        with pytest.raises(PolicyDenied):
            kernel.process.run_sync([name], cwd="out")
    assert "owned" not in kernel.process.run_sync(["ls"], cwd="out").text
    assert not (ws / "out" / "owned").exists()


def test_a_string_is_words_unless_it_needs_a_shell(make: Make, ws: Path) -> None:
    """Quotes are understood; syntax is refused as it was not asked for."""
    kernel = make(_shell("printf", "touch", raw=True))
    assert kernel.process.run_sync("printf '%s|' a 'b c'").text == "a|b c|"
    for line in ("printf x; touch m", "printf $(touch m)", "printf x > m", "printf `touch m`"):
        with pytest.raises(PolicyDenied) as caught:
            kernel.process.run_sync(line)
        assert caught.value.code == "shell.raw"
    assert not (ws / "m").exists()


def test_a_raw_line_needs_the_policy_and_the_caller(make: Make, ws: Path) -> None:
    """Without ``shell.raw`` a line with shell syntax is refused whoever asks; a line of plain
    words is judged and run as words."""
    kernel = make(_shell("printf"))
    with pytest.raises(PolicyDenied) as caught:
        kernel.process.run_sync("printf x > m", raw=True)
    assert caught.value.code == "shell.raw" and not (ws / "m").exists()
    assert kernel.process.run_sync("printf 'a b'", raw=True).text == "a b"
    for policy in (_shell("printf"), _shell("printf", raw=True)):
        with pytest.raises(PolicyDenied):
            make(policy).process.run_sync("touch m", raw=True)
    assert not (ws / "m").exists()


def test_a_raw_line_runs_in_bash(make: Make, ws: Path) -> None:
    """Where nothing is declared about programs, shell syntax works when it is asked for."""
    result = make().process.run_sync("printf a && printf $BASH_VERSION > m", raw=True)
    assert result.text == "a" and (ws / "m").read_text()


def test_bash_gets_nothing_that_runs_other_code(
    make: Make, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No start-up file, no exported function stands between the line and what it does."""
    (ws / "rc").write_text("touch owned\n")
    monkeypatch.setenv("BASH_ENV", str(ws / "rc"))
    monkeypatch.setenv("BASH_FUNC_printf%%", "() { touch owned; }")
    result = make().process.run_sync("printf fine; true", raw=True)
    assert result.text == "fine" and not (ws / "owned").exists()


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (["git", "status\0--x"], {}),
        (["git"], {"env": {"A\0": "x"}}),
        (["git"], {"env": {"A": "x\0y"}}),
        (["git"], {"env": {"A=B": "x"}}),
        (["git"], {"env": {"": "x"}}),
        (["git"], {"cwd": "/a\0b"}),
        ([], {}),
        ([""], {}),
    ],
)
def test_malformed_calls_are_denials(make: Make, command: list[str], options: dict) -> None:  # type: ignore[type-arg]
    """A NUL anywhere and nameless things are refused before anything runs."""
    for policy in (None, _shell("git")):
        with pytest.raises(PolicyDenied) as caught:
            make(policy).process.run_sync(command, **options)
        assert caught.value.code == "request.malformed"


def test_variables_for_the_program_are_judged(make: Make) -> None:
    """A loader control is refused, an ordinary name of the caller's own is passed."""
    kernel = make({**_shell("env"), "env": {"allow": ["MODE"]}})
    assert "MODE=x" in kernel.process.run_sync(["env"], env={"MODE": "x"}).text
    for name in ("LD_PRELOAD", "GIT_SSH_COMMAND", "OTHER"):
        with pytest.raises(PolicyDenied):
            kernel.process.run_sync(["env"], env={name: "x"})


def test_the_working_directory_widens_nothing(make: Make, ws: Path) -> None:
    """cwd is where relative paths count from and no grant."""
    kernel = make({"fs": {"read": ["."], "write": ["./out"]}})
    with kernel.narrow({"fs": {"read": ["."], "write": ["./out"]}}) as narrowed:
        for each in (kernel, narrowed):
            with pytest.raises(PolicyDenied):
                each.call_sync("fs.write", path="/etc/x", text="")
            with pytest.raises(PolicyDenied):
                each.call_sync("fs.write", path="a.txt", text="")


def test_spawn_needs_to_be_allowed(make: Make, ws: Path) -> None:
    """``spawn: false`` is the default of a shell block."""
    with pytest.raises(PolicyDenied) as caught:
        make(_shell("sleep")).process.spawn_sync(["sleep", "30"])
    assert caught.value.code == "shell.spawn"


def test_a_spawned_program_lives_until_the_kernel_closes(make: Make) -> None:
    """It runs beside the caller, can be waited for, and dies with the kernel."""
    kernel = make(_shell("sleep", "printf", spawn=True))
    short = kernel.process.spawn_sync(["printf", "x"])
    assert short.wait_sync().text == "x" and not short.running
    spawned = kernel.process.spawn_sync(["sleep", "30"])
    assert spawned.running and _alive(spawned.pid)
    kernel.close()
    assert not spawned.running and not _alive(spawned.pid)


def test_no_more_than_max_are_spawned(make: Make) -> None:
    """The cap counts what runs now."""
    with make(_shell("sleep", spawn={"max": 1})) as kernel:
        first = kernel.process.spawn_sync(["sleep", "30"])
        with pytest.raises(PolicyDenied) as caught:
            kernel.process.spawn_sync(["sleep", "30"])
        assert caught.value.code == "shell.spawn"
        first.kill()
        kernel.process.spawn_sync(["sleep", "30"])


def test_spawning_what_is_not_there(make: Make) -> None:
    """There is no exit code to wait for, so it is an error."""
    with pytest.raises(ToolError, match="no such program"):
        make().process.spawn_sync(["no-such-program-here"])


def test_the_timeout_is_an_error_and_recorded(make: Make, audit: MemoryAudit) -> None:
    """LimitExceeded, with the limit; the log knows."""
    start = time.monotonic()
    with pytest.raises(LimitExceeded) as caught:
        anyio.run(lambda: make().process.run(["sleep", "30"], timeout=0.2))
    assert time.monotonic() - start < 3
    assert (caught.value.kind, caught.value.limit) == ("wall", 0.2)
    assert audit.kinds()[-1] == "process.failed"


def test_cancelling_a_call_ends_its_program(make: Make, ws: Path) -> None:
    """When the caller is cancelled nothing runs on behind its back."""
    kernel = make()

    async def main() -> None:
        with anyio.move_on_after(0.5):
            await kernel.process.run(["sh", "-c", "echo $$ > pid; exec sleep 30"])

    anyio.run(main)
    pid = int((ws / "pid").read_text())
    deadline = time.monotonic() + 3
    while _alive(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_many_programs_run_at_once(make: Make) -> None:
    """Waiting programs do not use up the threads: 60 sleeps take the time of a few."""
    kernel = make()

    async def main() -> float:
        start = time.monotonic()
        async with anyio.create_task_group() as group:
            for _ in range(60):
                group.start_soon(kernel.process.run, ["sleep", "0.5"])
        return time.monotonic() - start

    assert anyio.run(main) < 5
    assert threading.active_count() < 70


def test_block_python_runs_in_a_fresh_interpreter(make: Make, ws: Path) -> None:
    """Its output comes back; nothing of this process is in it; it is gated by its tool."""
    kernel = make()
    result = kernel.run_block_sync("python", "import sys; print(6*7, 'anyio' in sys.modules)")
    assert result.text == "42 False\n"
    with pytest.raises(PolicyDenied) as caught:
        make({"tools": {"fs": True}}).run_block_sync("python", "open('m', 'w')")
    assert caught.value.code == "tool" and not (ws / "m").exists()


def test_block_python_cannot_be_steered_from_the_workspace(make: Make, ws: Path) -> None:
    """A module in the working directory does not replace the library's."""
    (ws / "json.py").write_text("open('owned', 'w')\n")
    assert make().run_block_sync("python", "import json").ok
    assert not (ws / "owned").exists()


def test_block_bash_is_judged_by_the_shell_rules(make: Make, ws: Path) -> None:
    """The gate and the rules both have to agree."""
    kernel = make({**_shell("printf", raw=True), "tools": {"block": {"bash": True}}})
    assert kernel.run_block_sync("bash", "printf hi").text == "hi"
    with pytest.raises(PolicyDenied):
        kernel.run_block_sync("bash", "touch m")
    with pytest.raises(PolicyDenied):
        kernel.run_block_sync("python", "open('m', 'w')")
    assert not (ws / "m").exists()


@pytest.mark.parametrize("kind", ["wasm", "perl"])
def test_blocks_that_cannot_run_say_so(make: Make, kind: str) -> None:
    """A clear error, and for wasm only after the gate."""
    with pytest.raises(ToolError):
        make().run_block_sync(kind, "x")
    if kind == "wasm":
        with pytest.raises(PolicyDenied):
            make({"tools": {"fs": True}}).run_block_sync(kind, "x")


def test_the_program_that_runs_is_the_one_that_was_judged(make: Make, tmp_path: Path) -> None:
    """The file is found once; a link swapped between decision and start changes nothing."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("good", "evil"):
        (folder / name).write_text(f"#!/bin/sh\necho {name}\n")
        (folder / name).chmod(0o755)
    (folder / "tool").symlink_to("good")

    class Swapping(MemoryAudit):
        def record(self, kind: str, /, **fields: object) -> str:
            (folder / "tool").unlink()
            (folder / "tool").symlink_to("evil")
            return super().record(kind, **fields)

    kernel = Kernel(
        {"isolation": "none", "shell": {"allow": ["tool"], "path": [str(folder)]}},
        cwd=tmp_path,
        audit=Swapping(),
    )
    assert kernel.process.run_sync(["tool"]).text == "good\n"


def test_the_programs_environment_is_the_kernels_not_the_callers(make: Make) -> None:
    """Variables set after the kernel was made do not slip into its programs."""
    kernel = make()
    os.environ["AXON_TEST_LATE"] = "x"
    try:
        text = kernel.process.run_sync([sys.executable, "-c", "import os; print(os.environ)"]).text
    finally:
        del os.environ["AXON_TEST_LATE"]
    assert "AXON_TEST_LATE" not in text
