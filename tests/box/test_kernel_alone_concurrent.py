"""A kernel in an ordinary process: threads, event loops and a web application at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from axonkernel import Kernel, PolicyDenied
from axonkernel.audit.verify import verify

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

POLICY: dict[str, Any] = {
    "fs": {"read": ["."]},
    "shell": {"allow": ["cat", "sh", "sleep"], "spawn": False},
}


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    folder = tmp_path / "ws"
    folder.mkdir()
    for n in range(50):
        (folder / f"{n}.txt").write_text(f"text {n}")
    with Kernel(POLICY, cwd=folder, audit=tmp_path / "log") as kernel:
        yield kernel
    assert verify(tmp_path / "log") == ()


def test_fifty_requests_of_a_web_application_at_once(kernel: Kernel) -> None:
    """Each is narrowed to its own file, by the box of its own program, and denied the next."""

    async def serve(request: Request) -> PlainTextResponse:
        n = int(request.path_params["n"])
        with kernel.narrow({"fs": {"read": [f"./{n}.txt"]}}) as view:
            both = f"cat {n}.txt; cat {(n + 1) % 50}.txt"
            result = await view.process.run(["sh", "-c", both])
        assert result.walls == ("mediator", "box")
        return PlainTextResponse(result.text)

    async def main() -> list[str]:
        app = Starlette(routes=[Route("/{n}", serve)])
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
            answers = await asyncio.gather(*(client.get(f"/{n}", timeout=60) for n in range(50)))
        return [answer.text for answer in answers]

    assert asyncio.run(main()) == [f"text {n}" for n in range(50)]


def test_threads_share_a_kernel(kernel: Kernel) -> None:
    """Twelve at once, each with its own result; a narrowing in one is none in another."""
    barrier = threading.Barrier(12)

    def one(n: int) -> str:
        barrier.wait()
        if n % 2:
            with kernel.narrow({"shell": False}), pytest.raises(PolicyDenied):
                kernel.process.run_sync(["cat", f"{n}.txt"])
        return kernel.process.run_sync(["cat", f"{n}.txt"]).text

    with ThreadPoolExecutor(12) as pool:
        assert list(pool.map(one, range(12))) == [f"text {n}" for n in range(12)]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_either_event_loop_runs_and_cancels(kernel: Kernel, backend: str) -> None:
    """Programs and blocks run at once; one that is cancelled is dead when the scope is left."""
    pids: list[int] = []

    async def main() -> list[str]:
        texts = []
        with anyio.move_on_after(0.5):
            await kernel.process.run(["sleep", "60"])

        async def one(n: int) -> None:
            texts.append((await kernel.process.run(["cat", f"{n}.txt"])).text)

        async def block() -> None:
            source = "print(kernel.call('fs.read', path='9.txt'))"
            texts.append((await kernel.run_block("python", source)).text.strip())

        async with anyio.create_task_group() as group:
            for n in range(3):
                group.start_soon(one, n)
            group.start_soon(block)
        spawned = kernel.process.spawn_sync(["sleep", "60"]) if pids else None
        assert spawned is None
        return sorted(texts)

    assert anyio.run(main, backend=backend) == ["text 0", "text 1", "text 2", "text 9"]


def test_a_thread_that_ends_takes_no_box_with_it(kernel: Kernel) -> None:
    """A program started in a thread is not killed when that thread is over."""

    async def main() -> str:
        return (await kernel.process.run(["sh", "-c", "sleep 0.3; cat 1.txt"])).text

    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(asyncio.run(main())))
    thread.start()
    thread.join()
    assert found == ["text 1"]
