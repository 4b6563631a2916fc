"""Boxes made by a supervisor that runs already."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from bench.boxes import BARE, SOMEWHERE, bare_twin, plan_for, warm
from bench.measure import Absent, Samples, by_turns, run, timed
from bench.session import Session
from bench.table import Row

__all__ = ["denied_rows", "limits_rows", "rows"]

_DENIED = 500


def _policy(**blocks: Any) -> dict[str, Any]:
    closed = {"fs": {"read": []}, "net": {"allow": []}, "shell": {"allow": ["true"]}}
    return {"default": "deny", **closed, **blocks}


def rows(session: Session) -> Iterator[Row]:
    """Boxed ``true``: alone, out of a big process, and with a network."""
    rounds = session.rounds(151)
    policy = _policy()
    with (
        warm(policy) as small,
        warm(policy, heap_mb=500) as big,
        warm(_policy(net={"allow": [SOMEWHERE]})) as linked,
    ):
        actions = {
            "bare": timed(lambda: run(BARE)),
            "bare, same mounts": bare_twin(plan_for(policy, "true"), ("true",)),
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


def limits_rows(session: Session) -> Iterator[Row]:
    """What a scope adds, beside what ``systemd-run`` takes."""
    from axonkernel.box.probe import probe

    lacking = probe().lacking("limits.memory")
    if lacking is not None:
        raise Absent(f"limits need {lacking.missing}: {lacking.detail or lacking.fix}")
    rounds = session.rounds(51)
    with warm(_policy()) as free, warm(_policy(limits={"memory": "1G", "pids": 100})) as held:
        actions = {
            "systemd-run": timed(lambda: run(("systemd-run", "--scope", "--quiet", "true"))),
            "boxed": free.action("go"),
            "boxed, limits": held.action("go"),
        }
        samples = by_turns(rounds, actions)
    yield Row(
        "limits: what a scope over D-Bus adds, beside systemd-run",
        samples.beyond("boxed, limits", "boxed") / samples.medians["systemd-run"],
        budget=0.6,
        n=rounds,
        medians=samples.medians,
    )


def denied_rows(session: Session) -> Iterator[Row]:
    """A readable folder with five hundred files taken out of it."""
    rounds = session.rounds(31)
    folder = session.room("denied")
    names = [folder / f"secret-{number}" for number in range(_DENIED)]
    for name in names:
        name.write_text("x")
    fs = {"read": [str(folder)], "deny": [str(name) for name in names]}
    with warm(_policy(fs=fs)) as boxed:
        actions = {"bare": timed(lambda: run(BARE)), "boxed": boxed.action("go")}
        samples = by_turns(rounds, actions)
    what = f"boxed `true`, {_DENIED} denied files, beside bare bwrap"
    yield _beside(what, samples, "boxed", "bare", 12.0)


def _beside(what: str, samples: Samples, subject: str, base: str, budget: float) -> Row:
    medians = samples.medians
    note = f"{medians[subject] * 1e3:.1f} ms beside {medians[base] * 1e3:.1f} ms"
    ratio = samples.ratio(subject, base)
    return Row(what, ratio, budget=budget, n=samples.n, note=note, medians=medians)
