"""A thousand requests at once: each sees its own policy, whatever way it ends."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import anyio.to_thread
import pytest

from axonkernel import Kernel, PolicyDenied, PolicyError, Request
from unit.memory import MemoryAudit

Make = Callable[..., Kernel]

COUNT = 1_000
BASE: dict[str, Any] = {"fs": {"read": ["."]}, "shell": {"allow": ["ls"]}}
#: What request ``n`` may read, of its neighbours' files.
OWN = 8


def _policy(n: int) -> dict[str, Any]:
    return {"fs": {"read": [f"./f{n % OWN}"]}}


def _readable(kernel: Kernel) -> tuple[int, ...]:
    """The files that may be read here and now, by number."""
    paths = (Request.read(f"f{n}") for n in range(OWN))
    return tuple(n for n, path in enumerate(paths) if kernel.check(path).verdict == "allow")


ALL = tuple(range(OWN))


class _Ended(Exception):
    pass


def test_a_thousand_requests_at_once(make: Make) -> None:
    """Interleaved at every await, in threads too, ending by return, error, cancel, timeout."""
    seen: dict[int, list[tuple[int, ...]]] = {n: [] for n in range(COUNT)}

    async def handler(inner: Kernel, n: int) -> None:
        for _ in range(2):
            await anyio.sleep(0)
            seen[n].append(_readable(inner))  # the kernel it was given
            await anyio.sleep(0)
            seen[n].append(_readable(kernel))  # the one everybody shares
        if n % 50 == 0:
            seen[n].append(await anyio.to_thread.run_sync(_readable, kernel))
        if n % 4 == 1:
            raise _Ended
        if n % 4 > 1:
            await anyio.sleep_forever()

    kernel = make(BASE, handler=handler)

    async def one(n: int) -> None:
        if n % 4 == 3:
            with anyio.move_on_after(0):
                await kernel.request(n, policy=_policy(n))
        elif n % 4 == 1:
            with pytest.raises(_Ended):
                await kernel.request(n, policy=_policy(n))
        else:
            await kernel.request(n, policy=_policy(n))
        assert _readable(kernel) == ALL

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for n in range(COUNT):
                group.start_soon(one, n)
            with anyio.fail_after(60):
                while any(len(found) < 4 for n, found in seen.items() if n % 4 != 3):
                    await anyio.sleep(0.01)
            assert _readable(kernel) == ALL
            group.cancel_scope.cancel()
        assert _readable(kernel) == ALL

    anyio.run(main)
    assert _readable(kernel) == ALL
    for n, found in seen.items():
        assert set(found) <= {(n % OWN,)}
        assert found or n % 4 == 3


def test_nested_requests_at_once_are_narrowed_by_all_around_them(make: Make) -> None:
    """An inner request has what the outer one has too, and leaves it as it was."""
    found: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = []

    async def handler(inner: Kernel, request: tuple[int, int]) -> tuple[int, ...]:
        n, depth = request
        await anyio.sleep(0)
        if depth:
            below = await inner.request((n, 0), policy={"fs": {"read": [f"./f{n}", "./f0"]}})
            found.append((n, below, _readable(inner)))
        return _readable(inner)

    kernel = make(BASE, handler=handler)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for n in range(1, OWN):
                for _ in range(5):
                    policy = {"fs": {"read": [f"./f{n}", f"./f{n - 1}"]}}
                    group.start_soon(kernel.request, (n, 1), policy)

    anyio.run(main)
    assert len(found) == 5 * (OWN - 1)
    for n, below, around in found:
        assert around == (n - 1, n)
        assert below == ((0, 1) if n == 1 else (n,))


def test_threads_narrow_by_themselves(make: Make) -> None:
    """``narrow`` in many threads at once: each holds its own, and none is left."""
    kernel = make(BASE)
    barrier = threading.Barrier(8)

    def one(n: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        barrier.wait(10)
        with kernel.narrow(_policy(n)):
            barrier.wait(10)
            inside = _readable(kernel)
            barrier.wait(10)
        return inside, _readable(kernel)

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(one, range(8)))
    assert results == [((n,), ALL) for n in range(8)]


def test_a_task_started_inside_keeps_the_narrowing(make: Make) -> None:
    """A copy of the context made inside is narrowed for ever, one made outside never."""
    kernel = make(BASE)
    outside = contextvars.copy_context()
    with kernel.narrow(_policy(3)):
        inside = contextvars.copy_context()
        assert outside.run(_readable, kernel) == ALL
    assert inside.run(_readable, kernel) == (3,)
    assert _readable(kernel) == ALL


def test_a_generator_cannot_carry_a_narrowing_out(make: Make) -> None:
    """Left in another order than entered: what is closed stays closed until its own end."""
    kernel = make(BASE)
    outer, inner = kernel.narrow(_policy(1)), kernel.narrow({"shell": False})
    outer.__enter__()
    inner.__enter__()
    assert _readable(kernel) == (1,)
    inner.__exit__(None, None, None)
    assert _readable(kernel) == (1,)
    assert kernel.check(Request.process(["ls"])).verdict == "allow"
    outer.__exit__(None, None, None)
    assert _readable(kernel) == ALL


def test_strict_requests_ask_for_no_more_than_the_base(make: Make, audit: MemoryAudit) -> None:
    """The handler does not run; without ``strict`` it runs clamped, and that is recorded."""
    ran: list[tuple[str, str]] = []

    def handler(kernel: Kernel, request: Any) -> None:
        ran.append((
            kernel.check(Request.read("/etc/passwd")).verdict,
            kernel.check(Request.process(["rm"])).verdict,
        ))  # fmt: skip

    kernel = make(BASE, handler=handler)
    wider = {"fs": {"read": ["/"]}, "shell": {"allow": ["ls", "rm"]}}
    with pytest.raises(PolicyError) as caught:
        kernel.request_sync("x", wider, strict=True)
    assert [fault.message.partition(":")[0] for fault in caught.value.faults] == [
        "fs.read /", "shell.allow rm",
    ]  # fmt: skip
    assert ran == [] and audit.records == []
    kernel.request_sync("x", wider)
    assert ran == [("deny", "deny")]
    assert audit.kinds() == ["narrowing.clamped", "request.walls"]
    assert len(audit.records[0]["lines"]) == 2
    kernel.request_sync("x", {"fs": {"read": ["./f1"]}}, strict=True)
    assert len(ran) == 2 and audit.kinds().count("narrowing.clamped") == 1


def test_a_narrowed_request_is_held_to_its_own_base(make: Make) -> None:
    """``strict`` inside a request counts from what that request has, not from the kernel's."""

    async def handler(kernel: Kernel, request: Any) -> None:
        with pytest.raises(PolicyError), kernel.narrow({"fs": {"read": ["./f2"]}}, strict=True):
            raise AssertionError("not reached")
        with kernel.narrow({"fs": {"read": ["./f2"]}}), pytest.raises(PolicyDenied):
            kernel.call_sync("fs.read", path="f2")

    make(BASE, handler=handler).request_sync("x", {"fs": {"read": ["./f1"]}}, strict=True)
