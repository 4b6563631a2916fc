"""Narrowing: only ever less, for exactly as long as it should."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from axonkernel import Kernel, PolicyDenied, PolicyError, Request, ToolError
from unit.memory import MemoryAudit

Make = Callable[..., Kernel]

BASE = {"fs": {"read": ["."], "write": ["./out"]}, "shell": {"allow": ["ls"]}}
CLOSED = {"fs": {"read": [], "write": []}, "shell": False}


def _verdicts(kernel: Kernel) -> tuple[str, str]:
    return (
        kernel.check(Request.read("a.txt")).verdict,
        kernel.check(Request.process(["ls"])).verdict,
    )


OPEN, SHUT = ("allow", "allow"), ("deny", "deny")


def test_a_block_of_code_is_narrowed_and_then_no_more(make: Make) -> None:
    """Inside the block both rules count, after it the base alone."""
    kernel = make(BASE)
    with kernel.narrow(CLOSED) as narrowed:
        assert _verdicts(kernel) == _verdicts(narrowed) == SHUT
        with pytest.raises(PolicyDenied):
            kernel.call_sync("fs.read", path="a.txt")
        with pytest.raises(PolicyDenied):
            kernel.process.run_sync(["ls"])
    assert _verdicts(kernel) == OPEN
    assert kernel.process.run_sync(["ls"]).ok


def test_an_exception_ends_the_narrowing(make: Make) -> None:
    """Leaving by an error clears it as well."""
    kernel = make(BASE)
    with pytest.raises(KeyError), kernel.narrow(CLOSED):
        raise KeyError
    assert _verdicts(kernel) == OPEN


def test_narrowing_cannot_widen(make: Make, audit: MemoryAudit, tmp_path: Path) -> None:
    """Asking for more than the base is clamped, recorded, and refused when strict."""
    kernel = make(BASE)
    wider = {"fs": {"read": ["/"]}, "shell": {"allow": True}}
    with kernel.narrow(wider):
        assert kernel.check(Request.read("/etc/passwd")).verdict == "deny"
        assert kernel.check(Request.process(["rm"])).verdict == "deny"
        assert kernel.check(Request.process(["ls"])).verdict == "allow"
    assert "narrowing.clamped" in audit.kinds()
    with pytest.raises(PolicyError), kernel.narrow(wider, strict=True):
        raise AssertionError("not reached")
    with kernel.narrow(CLOSED, strict=True):
        assert _verdicts(kernel) == SHUT


def test_narrowings_nest(make: Make) -> None:
    """The inner one adds to the outer one, and an open one lifts nothing."""
    kernel = make(BASE)
    with kernel.narrow({"shell": False}):
        assert _verdicts(kernel) == ("allow", "deny")
        with kernel.narrow({"fs": {"read": []}}):
            assert _verdicts(kernel) == SHUT
        with kernel.narrow({"shell": {"allow": True}}):
            assert _verdicts(kernel) == ("allow", "deny")
    assert _verdicts(kernel) == OPEN


def test_the_view_stays_narrowed_where_the_context_is_lost(make: Make) -> None:
    """A plain thread has no context: the kernel it was given is narrowed by itself."""
    kernel = make(BASE)
    seen: list[tuple[str, str]] = []
    with kernel.narrow(CLOSED) as narrowed:
        thread = threading.Thread(target=lambda: seen.append(_verdicts(narrowed)))
        thread.start()
        thread.join()
    assert seen == [SHUT]
    assert _verdicts(narrowed) == SHUT


def test_kernels_do_not_narrow_each_other(make: Make) -> None:
    """What holds for one kernel says nothing about another."""
    first, second = make(BASE), make(BASE)
    with first.narrow(CLOSED):
        assert _verdicts(first) == SHUT and _verdicts(second) == OPEN


async def _handler(kernel: Kernel, request: Any) -> Any:
    if request == "raise":
        raise KeyError("handler")
    if request == "sleep":
        await anyio.sleep(60)
    if request == "thread":
        return await anyio.to_thread.run_sync(_verdicts, kernel)
    return _verdicts(kernel)


def test_a_request_is_narrowed_for_its_time(make: Make) -> None:
    """``request(policy=...)``: the handler sees less, the caller afterwards everything."""
    kernel = make(BASE, handler=_handler)

    async def main() -> None:
        assert await kernel.request("x") == OPEN
        assert await kernel.request("x", policy=CLOSED) == SHUT
        assert await kernel.request("thread", policy=CLOSED) == SHUT
        assert _verdicts(kernel) == OPEN

    anyio.run(main)
    assert kernel.request_sync("x", CLOSED) == SHUT


@pytest.mark.parametrize("ending", ["return", "error", "cancel", "timeout"])
def test_a_request_clears_its_policy_on_every_way_out(make: Make, ending: str) -> None:
    """Return, error, cancellation and timeout alike."""
    kernel = make(BASE, handler=_handler)

    async def main() -> None:
        if ending == "return":
            await kernel.request("x", policy=CLOSED)
        elif ending == "error":
            with pytest.raises(KeyError):
                await kernel.request("raise", policy=CLOSED)
        elif ending == "cancel":
            async with anyio.create_task_group() as group:
                group.start_soon(lambda: kernel.request("sleep", policy=CLOSED))
                await anyio.sleep(0.05)
                group.cancel_scope.cancel()
        else:
            with anyio.move_on_after(0.05):
                await kernel.request("sleep", policy=CLOSED)
        assert _verdicts(kernel) == OPEN

    anyio.run(main)


def test_concurrent_requests_do_not_see_each_other(make: Make) -> None:
    """Each holds its own policy, whatever the interleaving."""
    seen: list[tuple[bool, tuple[str, str]]] = []

    async def handler(kernel: Kernel, closed: bool) -> None:
        for _ in range(3):
            await anyio.sleep(0)
            seen.append((closed, _verdicts(kernel)))

    kernel = make(BASE, handler=handler)

    async def main() -> None:
        async with anyio.create_task_group() as group:
            for n in range(50):
                policy = CLOSED if n % 2 else None
                group.start_soon(kernel.request, bool(n % 2), policy)

    anyio.run(main)
    assert len(seen) == 150
    assert all(verdicts == (SHUT if closed else OPEN) for closed, verdicts in seen)


def test_a_request_inside_a_request_is_narrowed_by_both(make: Make) -> None:
    """Nested requests add up, through the outer kernel and through the handler's own."""
    seen: list[tuple[str, str]] = []

    async def handler(inner: Kernel, depth: int) -> None:
        if depth:
            await kernel.request(depth - 1, policy={"fs": {"read": []}})
            await inner.request(depth - 1, policy={"fs": {"read": []}})
        seen.append(_verdicts(inner))

    kernel = make(BASE, handler=handler)
    anyio.run(kernel.request, 1, {"shell": False})
    assert seen == [SHUT, SHUT, ("allow", "deny")]


def test_a_plain_function_can_be_the_handler(make: Make) -> None:
    """It runs in a thread, under the same policy."""
    kernel = make(BASE, handler=lambda k, request: _verdicts(k))
    assert kernel.request_sync("x", CLOSED) == SHUT


def test_without_a_handler_there_is_nothing_to_ask(make: Make) -> None:
    """A clear error."""
    with pytest.raises(ToolError, match="no handler"):
        make(BASE).request_sync("x")


def test_a_faulty_narrowing_runs_nothing(make: Make) -> None:
    """A policy that is not understood is an error, not a request without it."""
    ran: list[object] = []
    kernel = make(BASE, handler=lambda k, request: ran.append(request))
    with pytest.raises(PolicyError):
        kernel.request_sync("x", {"fs": {"raed": []}})
    assert ran == []


def test_a_machine_profile_is_a_ceiling(make: Make) -> None:
    """A layer below the policy takes away, and its name is in the decision."""
    from axonkernel.policy.parse import parse

    profile = parse({"shell": {"allow": ["pwd"]}})
    kernel = make({"shell": {"allow": ["ls", "pwd"]}}, layers=[("profile", profile)])
    assert kernel.check(Request.process(["pwd"])).verdict == "allow"
    decision = kernel.check(Request.process(["ls"]))
    assert (decision.verdict, decision.layer) == ("deny", "profile")


def test_without_a_handler_a_request_and_its_posture_say_so() -> None:
    """Both with what brings one; a kernel that has one answers."""
    policy = {"fs": {"read": ["/"]}}
    less: dict[str, Any] = {"fs": {"read": []}}
    with Kernel(policy, audit=MemoryAudit()) as kernel:
        for asked in (lambda: kernel.request_sync(1, less), lambda: kernel.request_posture(less)):
            with pytest.raises(ToolError, match=r"no handler: Kernel\(policy, handler=...\)"):
                asked()
    echo = Kernel(policy, handler=lambda _, said: said, confine="mediator", audit=MemoryAudit())
    with echo as kernel:
        assert kernel.request_sync(1, less) == 1
        assert kernel.request_posture(less)[0].field == "request"
