"""A narrowed request in a worker, beside the same request without the narrowing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import anyio

from axonkernel.kernel import Kernel
from bench.measure import Samples
from bench.session import Session
from bench.table import Row

__all__ = ["handler", "rows"]

_BUDGET_MS = 5.0
#: So long nobody asks, as between the requests of a service: workers are forked then.
_PAUSE_S = 0.03
_CLOSED: dict[str, Any] = {"fs": {"read": [], "write": []}, "net": {"allow": []}}


async def handler(kernel: Kernel, request: str) -> str:
    """Does nothing; workers import it by name."""
    return request


def rows(session: Session) -> Iterator[Row]:
    """fs and net closed, which is the common narrowing."""
    folder = session.room("worker")
    policy = {"fs": {"read": [str(folder)]}, "net": {"allow": True}}
    with Kernel(policy, cwd=folder, audit=folder / "audit.jsonl", handler=handler) as kernel:
        samples = anyio.run(_samples, kernel, session.rounds(301))
        road = kernel.request_posture(_CLOSED)[0].by
    yield Row(
        f"narrowed request in a worker ({road}), beyond the un-narrowed one",
        samples.beyond("narrowed", "un-narrowed") * 1e3,
        "ms",
        _BUDGET_MS,
        n=samples.n,
        medians=samples.medians,
    )


async def _samples(kernel: Kernel, rounds: int) -> Samples:
    seconds: dict[str, list[float]] = {"un-narrowed": [], "narrowed": []}
    await kernel.request("x", policy=_CLOSED)
    for _ in range(rounds):
        for name, policy in (("un-narrowed", None), ("narrowed", _CLOSED)):
            await anyio.sleep(_PAUSE_S)
            start_s = time.perf_counter()
            await kernel.request("x", policy=policy)
            seconds[name].append(time.perf_counter() - start_s)
    return Samples(seconds)
