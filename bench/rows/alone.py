"""Programs that a kernel in an ordinary process starts: confined, boxed, fifty at once."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from axonkernel import Kernel
from axonkernel.policy.decide import BoxGrants
from bench.measure import Samples, by_turns, timed
from bench.session import Session
from bench.table import Row

__all__ = ["burst_rows", "rows"]

_AT_ONCE = 50
_TRUE = ["true"]


@contextmanager
def _kernel(folder: Path, rules: int, *, confined: bool) -> Iterator[Kernel]:
    """A kernel with so many read grants; ``confined`` as in a box, where it makes no other."""
    grants = [folder / f"granted-{number}" for number in range(rules)]
    for grant in grants:
        grant.mkdir(exist_ok=True)
    policy: dict[str, Any] = {
        "default": "deny",
        "fs": {"read": [str(grant) for grant in grants]},
        "net": {"allow": ["198.51.100.1:443"] if confined else []},
        "shell": {"allow": _TRUE},
    }
    boxed = BoxGrants() if confined else None
    posture = () if confined else None
    with Kernel(policy, cwd=folder, audit=folder / "log", boxed=boxed, posture=posture) as kernel:
        if not confined:
            yield kernel
            return
        with kernel.narrow({"fs": policy["fs"], "net": {"allow": []}}) as narrowed:
            yield narrowed


def _run(kernel: Kernel) -> Callable[[], None]:
    def run() -> None:
        result = kernel.process.run_sync(_TRUE)
        if not result.ok or len(result.walls) < 2:
            raise RuntimeError(f"not what is to be measured: {result}")

    return run


def rows(session: Session) -> Iterator[Row]:
    """One program at a time, by ``kernel.process.run_sync``, judged and recorded."""
    rounds = session.rounds(301)
    folder = session.room("alone")
    with (
        _kernel(folder, 10, confined=True) as few,
        _kernel(folder, 200, confined=True) as many,
        _kernel(folder, 10, confined=False) as boxed,
    ):
        actions = {
            "bare": timed(lambda: subprocess.run(_TRUE)),
            "confined, 10 rules": timed(_run(few)),
            "confined, 200 rules": timed(_run(many)),
            "boxed": timed(_run(boxed)),
        }
        samples = by_turns(rounds, actions)
    first = "confined `process.run` from the zygote, tree kill included, beside `subprocess.run`"
    yield _beside(first, samples, "confined, 10 rules", "bare", 3.0)
    yield _beside(
        "the same with 200 rules, beside 10", samples, "confined, 200 rules", "confined, 10 rules",
        1.2,
    )  # fmt: skip
    yield _beside("boxed `process.run`, beside `subprocess.run`", samples, "boxed", "bare", None)


def burst_rows(session: Session) -> Iterator[Row]:
    """Fifty at once from fifty threads: the time of each, were they one after the other."""
    rounds = session.rounds(15)
    folder = session.room("burst")
    with (
        _kernel(folder, 10, confined=True) as confined,
        _kernel(folder, 10, confined=False) as boxed,
    ):
        kinds = {
            "bare": lambda: subprocess.run(_TRUE),
            "confined": _run(confined),
            "boxed": _run(boxed),
        }
        actions = {name: timed(run) for name, run in kinds.items()}
        actions |= {f"{name}, {_AT_ONCE} at once": _burst(run) for name, run in kinds.items()}
        samples = by_turns(rounds, actions)
    for name, budget in (("bare", None), ("confined", 1.5), ("boxed", 1.2)):
        what = f"{name} `true`, {_AT_ONCE} at once, each, beside one alone"
        yield _beside(what, samples, f"{name}, {_AT_ONCE} at once", name, budget)


def _burst(run: Callable[[], object]) -> Callable[[], float]:
    def action() -> float:
        time.sleep(0.5)  # spares are made while nothing is asked
        threads = [threading.Thread(target=run) for _ in range(_AT_ONCE)]
        start_s = time.perf_counter()
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return (time.perf_counter() - start_s) / _AT_ONCE

    return action


def _beside(what: str, samples: Samples, subject: str, base: str, budget: float | None) -> Row:
    medians = samples.medians
    note = f"{medians[subject] * 1e3:.2f} ms beside {medians[base] * 1e3:.2f} ms"
    ratio = samples.ratio(subject, base)
    return Row(what, ratio, budget=budget, n=samples.n, note=note, medians=medians)
