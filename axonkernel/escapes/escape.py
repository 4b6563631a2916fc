"""The escape test as one call: posture and rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from axonkernel.box.model import BoxPlan, PostureField
from axonkernel.errors import IsolationUnavailable
from axonkernel.escapes import suite
from axonkernel.escapes.judge import FAILED, Row, Rules, judge, reported_by, succeeded
from axonkernel.escapes.plays import PLAYS, Part, Played, play, unplayable
from axonkernel.escapes.scene import Scene
from axonkernel.escapes.stage import Stage
from axonkernel.escapes.trial import Heard, control, held, listen, plan_for, policy_for
from axonkernel.policy.model import Limits, Policy

__all__ = ["Tested", "escape_test"]

Progress = Callable[[str], None]
#: For each attempt, what showed its success outside, and what was said there.
Controls = dict[str, tuple[str, str]]


class Tested(NamedTuple):
    """What came of it all."""

    posture: tuple[PostureField, ...]
    rows: tuple[Row, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many attempts came to each outcome."""
        return dict(Counter(row.outcome for row in self.rows))

    @property
    def ok(self) -> bool:
        """Nothing escaped, and every attempt was heard of."""
        return not any(row.outcome in FAILED for row in self.rows)

    def as_data(self) -> dict[str, Any]:
        """The same as JSON data."""
        return {
            "posture": [row._asdict() for row in self.posture],
            "rows": [row._asdict() for row in self.rows],
            "counts": self.counts,
            "attempts": len(self.rows),
            "ok": self.ok,
        }


def escape_test(
    layers: Sequence[Policy],
    *,
    source: str = "",
    base: Path | None = None,
    owner: int | None = None,
    plays: Sequence[Played] = PLAYS,
    progress: Progress = lambda text: None,
) -> Tested:
    """Try to escape from the box of a policy, on this machine.

    Arguments:
        layers: the policies that hold together.
        source: the policy's file, or "".
        base: where the one temporary folder is made.
        owner: uid that the folder belongs to under root; None for this user.
        plays: those to be played as well.
        progress: told of each attempt.

    Raises IsolationUnavailable, PolicyError or BoxError when there is no box to try.
    """
    make = partial(Stage, base=base, policy=source, owner=owner)
    progress("outside the box, where each has to get through")
    with make(boxed=False) as stage:
        controls = _outside(stage)
    with make(boxed=True) as stage, _prepared(stage, layers, source) as box:
        rows = list(box.attempts(controls, progress))
    # Anew: what the attempts have made of theirs is no beginning for anything.
    with (
        make(boxed=False) as free,
        make(boxed=True) as stage,
        _prepared(stage, layers, source) as box,
    ):
        limits = box.policy.limits or Limits()
        unboxed = Part(free, free.fill(None), None, layers, limits)
        boxed = Part(stage, box.scene, box.plan, layers, limits)
        rows += box.plays(plays, unboxed, boxed, progress)
    order = list(dict.fromkeys(each.group for each in suite.ATTEMPTS))
    rows.sort(key=lambda row: order.index(row.group) if row.group in order else len(order))
    return Tested(box.plan.posture, tuple(rows))


def _outside(stage: Stage) -> Controls:
    heard = control(stage, stage.fill(None), [each.id for each in suite.ATTEMPTS])
    return {
        each.id: (succeeded(each, heard[each.id], stage), heard[each.id].said)
        for each in suite.ATTEMPTS
        if each.id in heard
    }


@contextmanager
def _prepared(stage: Stage, layers: Sequence[Policy], source: str) -> Iterator[_Boxed]:
    plan = plan_for(layers, stage, (source,) if source else ())
    if plan.bare:
        raise IsolationUnavailable("the box", "any wall", "axonkernel doctor says how")
    policy = policy_for(layers, stage)
    scene = stage.fill(plan.run_as)
    rules = Rules(policy)
    try:
        # Before anything runs: an attempt may make a name a link to what is granted.
        asked = [(each.id, each.ask) for each in suite.ATTEMPTS]
        asked += [(each.id, each.ask) for each in PLAYS]
        granted = {name: rules.grant(ask, scene) for name, ask in asked}
    finally:
        rules.close()
    yield _Boxed(stage, scene, plan, policy, granted)


class _Boxed(NamedTuple):
    """A stage, the box around its agent, and what the policy grants there."""

    stage: Stage
    scene: Scene
    plan: BoxPlan
    policy: Policy
    granted: dict[str, bool]

    @property
    def posture(self) -> dict[str, str]:
        """The state of each field."""
        return {row.field: row.state for row in self.plan.posture}

    def attempts(self, controls: Controls, progress: Progress) -> Iterator[Row]:
        """The rows of what runs inside by itself."""
        heard, kept = self._heard(progress)
        reported = reported_by(kept, self.stage.places)
        for each in suite.ATTEMPTS:
            said = heard.get(each.id)
            yield judge(
                each,
                controls.get(each.id, ("", "")),
                said,
                succeeded(each, said, self.stage),
                granted=self.granted[each.id],
                posture=self.posture,
                reported=each.id in reported,
                missing=self.stage.missing.get(each.needs, ""),
            )

    def plays(
        self, plays: Sequence[Played], unboxed: Part, boxed: Part, progress: Progress
    ) -> Iterator[Row]:
        """The rows of what needs a hand outside."""
        for each in plays:
            progress(each.text)
            missing = unplayable(each, boxed.limits)
            shown = evidence = None
            if not missing:
                shown, evidence = play(each, unboxed), play(each, boxed)
            yield judge(
                each,
                (shown or "", "no effect"),
                None if evidence is None else Heard("no effect", ""),
                evidence or "",
                granted=self.granted[each.id],
                posture=self.posture,
                reported=f"{self.stage.project}/{each.place}" in boxed.told,
                missing=missing,
            )

    def _heard(self, progress: Progress) -> tuple[dict[str, Heard], list[tuple[str, str]]]:
        ids = [each.id for each in suite.ATTEMPTS]
        heard: dict[str, Heard] = {}
        with held(self.plan, suite.command(), self.stage) as box:
            for name, said in listen(box.process, suite.job(self.scene, ids)):
                heard[name] = said
                progress(f"{len(heard)} of {len(ids)}  inside: {name}")
            box.process.wait()
        return heard, box.kept()
