"""A tool call that does nothing: what the checkpoint and its record cost."""

from __future__ import annotations

from collections.abc import Iterator
from time import perf_counter

import anyio

from axonkernel.audit.verify import verify
from axonkernel.kernel import Kernel
from axonkernel.tools import builtin_tools
from bench.measure import Samples, by_turns, timed
from bench.session import Session
from bench.table import Row

__all__ = ["rows"]

_BUDGET_US = 40.0


async def noop(text: str) -> None:
    """A tool for code with an event loop."""


def noop_sync(text: str) -> None:
    """A tool for code without one."""


def rows(session: Session) -> Iterator[Row]:
    """The same call with and without the kernel, from both kinds of code."""
    rounds = session.rounds(3001)
    log = session.room("tool_call") / "audit.jsonl"
    tools = builtin_tools()
    tools.register("bench.noop", noop)
    tools.register("bench.noop_sync", noop_sync)
    policy = {"tools": {"bench": {"noop": True, "noop_sync": True}}}
    with Kernel(policy, audit=log, tools=tools) as kernel:
        yield _row("await kernel.call", anyio.run(_async_samples, kernel, rounds))
        actions = {
            "bare": timed(lambda: noop_sync("x")),
            "mediated": timed(lambda: kernel.call_sync("bench.noop_sync", text="x")),
        }
        yield _row("kernel.call_sync", by_turns(rounds, actions))
    if verify(log) or len(log.read_bytes().splitlines()) < 2 * rounds:
        raise RuntimeError("the calls were not all recorded")


async def _async_samples(kernel: Kernel, rounds: int) -> Samples:
    seconds: dict[str, list[float]] = {"bare": [], "mediated": []}
    for _ in range(rounds):
        start_s = perf_counter()
        await noop("x")
        between_s = perf_counter()
        await kernel.call("bench.noop", text="x")
        seconds["bare"].append(between_s - start_s)
        seconds["mediated"].append(perf_counter() - between_s)
    return Samples(seconds)


def _row(how: str, samples: Samples) -> Row:
    return Row(
        f"no-op tool by {how}, audit on, beyond the bare call",
        samples.beyond("mediated", "bare") * 1e6,
        "us",
        _BUDGET_US,
        n=samples.n,
        medians=samples.medians,
    )
