"""Boxes made by a supervisor that runs already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.boxes import BARE, SOMEWHERE, bare_twin, plan_for, warm
from bench.measure import Samples, by_turns, run, timed
from bench.session import Session
from bench.table import Row

__all__ = ["denied_rows", "keeper_rows", "policy", "rows"]

_DENIED = 500


def policy(**blocks: Any) -> dict[str, Any]:
    """A policy that grants nothing but ``true``, and ``blocks`` in place of its own."""
    closed = {"fs": {"read": []}, "net": {"allow": []}, "shell": {"allow": ["true"]}}
    return {"default": "deny", **closed, **blocks}


def rows(session: Session) -> Iterator[Row]:
    """Boxed ``true``: alone, out of a big process, and with a network."""
    rounds = session.rounds(151)
    closed = policy()
    with (
        warm(closed) as small,
        warm(closed, heap_mb=500) as big,
        warm(policy(net={"allow": [SOMEWHERE]})) as linked,
    ):
        actions = {
            "bare": timed(lambda: run(BARE)),
            "bare, same mounts": bare_twin(plan_for(closed, "true"), ("true",)),
            "boxed": small.action("go"),
            "boxed, 500 MB heap": big.action("go"),
            "boxed, pasta": linked.action("go"),
        }
        samples = by_turns(rounds, actions)
    for what, subject, base, budget in (
        (
            "boxed `true`, warm, beside bwrap with the same mounts",
            "boxed",
            "bare, same mounts",
            2.0,
        ),
        ("the same from a 500 MB process, beside a small one", "boxed, 500 MB heap", "boxed", 1.2),
        ("boxed `true` with a pasta link, warm, beside bare bwrap", "boxed, pasta", "bare", 9.0),
    ):
        yield _beside(what, samples, subject, base, budget)


def keeper_rows(session: Session) -> Iterator[Row]:
    """What a keeper adds, and what holding the program at its exec does."""
    rounds = session.rounds(75)
    folder = session.room("kept")
    secret = folder / "secret"
    secret.write_text("x")
    fs = {"read": [str(folder)], "deny": [str(secret)]}
    closed = policy()
    with (
        warm(closed) as free,
        warm(policy(fs=fs)) as kept,
        warm(closed, traced=False) as unheld,
    ):
        actions = {
            "bare": timed(lambda: run(BARE)),
            "boxed": free.action("go"),
            "boxed, keeper": kept.action("go"),
            "boxed, not traced": unheld.action("go"),
        }
        samples = by_turns(rounds, actions)
    for what, more, less in (
        ("what a keeper of one denied file adds", "boxed, keeper", "boxed"),
        ("what holding the program at its exec adds", "boxed", "boxed, not traced"),
    ):
        added_s = samples.beyond(more, less)
        yield Row(f"{what}, beside bare bwrap", added_s / samples.medians["bare"], n=samples.n,
                  note=f"{added_s * 1e3:.1f} ms", medians=samples.medians)  # fmt: skip


def denied_rows(session: Session) -> Iterator[Row]:
    """A readable folder with five hundred files taken out of it."""
    rounds = session.rounds(31)
    folder = session.room("denied")
    names = [folder / f"secret-{number}" for number in range(_DENIED)]
    for name in names:
        name.write_text("x")
    fs = {"read": [str(folder)], "deny": [str(name) for name in names]}
    with warm(policy(fs=fs)) as boxed:
        actions = {"bare": timed(lambda: run(BARE)), "boxed": boxed.action("go")}
        samples = by_turns(rounds, actions)
    what = f"boxed `true`, {_DENIED} denied files, beside bare bwrap"
    yield _beside(what, samples, "boxed", "bare", 12.0)


def _beside(what: str, samples: Samples, subject: str, base: str, budget: float) -> Row:
    medians = samples.medians
    note = f"{medians[subject] * 1e3:.1f} ms beside {medians[base] * 1e3:.1f} ms"
    ratio = samples.ratio(subject, base)
    return Row(what, ratio, budget=budget, n=samples.n, note=note, medians=medians)
