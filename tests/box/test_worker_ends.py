"""How narrowed requests end: nothing outlives one, whatever way it ends, and nothing is left."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from axonkernel import Kernel, LimitExceeded, ToolError
from axonkernel.given import policy_from
from box import worker_handlers as handlers
from unit.memory import MemoryAudit

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

CLOSED: dict[str, Any] = {"fs": {"read": [], "write": []}, "net": {"allow": []}}
READING: dict[str, Any] = {"fs": {"read": ["."], "write": ["out"]}}
POLICY: dict[str, Any] = {**READING, "shell": {"allow": ["true"]}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    (folder / "out").mkdir(parents=True)
    return folder


@pytest.fixture
def fresh(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Kernel]:
    """A kernel of one test."""
    agent = handlers.agent
    monkeypatch.setenv("AXON_TEST_FOLDER", str(folder))
    monkeypatch.setattr(agent, "base", str(folder))
    monkeypatch.setattr(agent, "policy", policy_from(POLICY, str(folder)))
    with agent.kernel(audit=MemoryAudit()) as kernel:
        yield kernel


def ask(kernel: Kernel, *request: Any) -> Any:
    return kernel.request_sync(list(request), policy=CLOSED)


def is_alive(path: Path) -> bool:
    before = path.read_text()
    time.sleep(0.15)
    return path.read_text() != before


@pytest.mark.parametrize("ending", ["return", "error", "cancel", "timeout", "wall", "die"])
def test_nothing_outlives_a_request(fresh: Kernel, folder: Path, ending: str) -> None:
    """A process that left session and parents ends with it, whatever way that ends."""
    path = folder / f"out/alive-{ending}"
    then: list[Any] = {"return": [], "error": ["raise", "key"], "die": ["die"]}.get(
        ending, ["sleep", 60]
    )
    policy = {**READING, "limits": {"wall": "1s"}} if ending == "wall" else READING
    request = ["leave", str(path), then]

    async def main() -> None:
        if ending == "cancel":
            async with anyio.create_task_group() as group:
                group.start_soon(fresh.request, request, policy)
                while not path.exists():
                    await anyio.sleep(0.01)
                assert is_alive(path)
                group.cancel_scope.cancel()
        else:
            with anyio.move_on_after(1 if ending == "timeout" else 30):
                await fresh.request(request, policy=policy)

    expected = {"error": KeyError, "wall": LimitExceeded, "die": ToolError}.get(ending)
    with pytest.raises(expected) if expected else contextlib.nullcontext():
        anyio.run(main)
    assert not is_alive(path)


def test_a_killed_zygote_is_replaced(fresh: Kernel) -> None:
    """Also while spares wait; and what it cannot import is told."""
    assert ask(fresh, "value", "plain")
    workers = fresh._core.workers
    assert workers is not None and workers._zygote is not None
    first = workers._zygote._process
    first.kill()
    first.wait()
    for _ in range(4):
        assert ask(fresh, "value", "plain")
    assert workers._zygote is not None and workers._zygote._process.pid != first.pid


def test_many_at_once(fresh: Kernel) -> None:
    """A hundred requests at a time, each with its own answer, and nothing left open."""
    before = len(os.listdir("/proc/self/fd"))
    seen: list[Any] = []

    async def one(number: int) -> None:
        seen.append(await fresh.request(["value", ["plain", "fields"][number % 2]], policy=CLOSED))

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for number in range(100):
                group.start_soon(one, number)

    anyio.run(main)
    assert len(seen) == 100
    assert sum(value == handlers.VALUES["plain"] for value in seen) == 50
    fresh.close()
    assert len(os.listdir("/proc/self/fd")) <= before


KILLED = """
import asyncio, sys
from box.worker_handlers import agent
async def main():
    async with agent.open(audit=sys.argv[2]) as kernel:
        request = ["leave", sys.argv[1], ["sleep", 60]]
        await kernel.request(request, policy={"fs": {"write": ["out"]}})
if __name__ == "__main__":
    asyncio.run(main())
"""


def test_everything_ends_with_a_killed_application(folder: Path, tmp_path: Path) -> None:
    """SIGKILL to the process that made the kernel."""
    script, path = tmp_path / "app.py", folder / "out/alive-kill"
    script.write_text(KILLED)
    tests = str(Path(__file__).parent.parent)
    env = {**os.environ, "AXON_TEST_FOLDER": str(folder)}
    env["PYTHONPATH"] = os.pathsep.join([tests, str(Path(tests).parent)])
    words = [sys.executable, str(script), str(path), str(tmp_path / "log")]
    with subprocess.Popen(words, env=env) as application:
        while not path.exists():
            assert application.poll() is None
            time.sleep(0.02)
        assert is_alive(path)
        application.kill()
    time.sleep(0.3)
    assert not is_alive(path)


FORKED = """
import os, sys
from box.worker_handlers import agent, VALUES
CLOSED = {"fs": {"read": [], "write": []}}
if __name__ == "__main__":
    with agent.kernel(audit=sys.argv[1]) as kernel:
        pids = {kernel.request_sync(["where"], policy=CLOSED)[1]}
        for _ in range(2):
            read, write = os.pipe()
            if os.fork() == 0:
                zygotes = {kernel.request_sync(["where"], policy=CLOSED)[1] for _ in range(3)}
                os.write(write, b" ".join(b"%d" % each for each in zygotes))
                kernel.close()
                os._exit(0)
            os.wait()
            pids |= {int(each) for each in os.read(read, 99).split()}
        pids.add(kernel.request_sync(["where"], policy=CLOSED)[1])
    print(len(pids))
"""


def test_a_forked_server_process_has_workers_of_its_own(folder: Path, tmp_path: Path) -> None:
    """As with servers that fork first: each child a zygote, the parent's goes on."""
    script = tmp_path / "app.py"
    script.write_text(FORKED)
    tests = str(Path(__file__).parent.parent)
    env = {**os.environ, "AXON_TEST_FOLDER": str(folder)}
    env["PYTHONPATH"] = os.pathsep.join([tests, str(Path(tests).parent)])
    words = [sys.executable, str(script), str(tmp_path / "log")]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
