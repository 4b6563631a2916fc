"""What came of an attempt, as seen from outside, held against what the policy grants."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, NamedTuple

from axonkernel.escapes.attempt import Attempt
from axonkernel.escapes.plays import Played
from axonkernel.escapes.scene import Scene
from axonkernel.escapes.stage import Stage
from axonkernel.escapes.trial import Heard
from axonkernel.kernel import Kernel
from axonkernel.paths import within
from axonkernel.policy.model import Policy
from axonkernel.policy.request import AnyRequest, Request

__all__ = ["FAILED", "Outcome", "Row", "Rules", "judge", "succeeded"]

#: ``held``: refused inside, and the same got through outside. ``unproven``: refused inside,
#: and it cannot succeed on this machine anyway. ``granted``: got through, as the policy says.
#: ``reported``: got through, and the run names it at its end. ``not here``: cannot be tried.
Outcome = Literal["held", "unproven", "granted", "reported", "not here", "ESCAPED", "NO ANSWER"]
FAILED = ("ESCAPED", "NO ANSWER")
#: Of what the keeper did and saw, what the run names at its end.
_TOLD = ("name.made", "mask.added", "mask.restored")


class Row(NamedTuple):
    """One line of the table.

    Arguments:
        id, group, attempt, meaning: of the attempt.
        wall: what answered it; "" where it was not tried, "nobody" where it got through.
        outcome: what came of it.
        detail: the errno, what showed a success, or what is missing.
        control: what the same attempt came to outside.
    """

    id: str
    group: str
    attempt: str
    meaning: str
    wall: str
    outcome: Outcome
    detail: str
    control: str


class Rules:
    """What the policy says to the questions that attempts stand for.

    Arguments:
        policy: what the box is made of, the stage's folder included.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        # Outside a box: inside, its private /tmp would count as granted.
        self._kernel = Kernel(policy, cwd="/", audit=_NoRecords(), posture=())

    def grant(self, ask: str, scene: Scene) -> bool:
        """Whether the policy says yes to what an attempt asks."""
        kind, _, value = ask.format_map(scene._asdict()).partition(" ")
        if kind in ("", "userns"):
            return bool(kind) and self._policy.box.nested_userns
        if kind == "open":
            return self._is_open(value)
        if kind == "unsafe":
            return self._is_unsafe(value)
        request = _REQUESTS[kind](value)
        return self._kernel.check(request).verdict == "allow"

    def close(self) -> None:
        """Let go of what judges."""
        self._kernel.close()

    def _is_open(self, block: str) -> bool:
        if block == "net":
            return self._policy.net is None or self._policy.net.allow is True
        fs = self._policy.fs
        return fs is None or "/" in fs.write

    def _is_unsafe(self, path: str) -> bool:
        """Whether what no ordinary grant brings is granted by its name."""
        unsafe = self._policy.fs.unsafe if self._policy.fs is not None else ()
        devices = (f"/dev/{name}" for name in self._policy.box.devices)
        return bool(within([path], (*unsafe, *devices)))


class _NoRecords:
    """What was only asked about leaves no record."""

    def record(self, kind: str, /, **fields: Any) -> str:
        return ""


def _program(name: str) -> AnyRequest:
    return Request.process([name])


_REQUESTS: dict[str, Callable[[str], AnyRequest]] = {
    "read": Request.read,
    "write": Request.write,
    "connect": Request.connect,
    "env": Request.env,
    "program": _program,
}


def succeeded(attempt: Attempt, heard: Heard | None, stage: Stage) -> str:
    """What shows that an attempt got through; "" when nothing does.

    Its own word counts only where there is nothing else to see.
    """
    if heard is None:
        return ""
    evidence = stage.evidence(attempt.id, heard.loot)
    if not evidence and attempt.sign == "claim" and heard.said == "done":
        return heard.loot[:60] or "done"
    return evidence


def judge(
    attempt: Attempt | Played,
    control: tuple[str, str],
    heard: Heard | None,
    evidence: str,
    *,
    granted: bool,
    posture: Mapping[str, str],
    reported: bool = False,
    missing: str = "",
) -> Row:
    """The row of one attempt.

    Arguments:
        control: what showed a success outside, and what was said there.
        heard: None when nothing was heard of it in the box.
        evidence: what shows a success in the box.
        granted: what :class:`Rules` says.
        posture: the state of each field.
        reported: whether the run itself names it at its end.
        missing: what it needs and is not here; "" when nothing is.
    """
    shown, said = control
    outside = "got through" if shown else said or "no answer"
    fields = (attempt.id, attempt.group, attempt.text, attempt.meaning)
    if missing:
        return Row(*fields, "", "not here", missing, outside)
    if heard is None:
        return Row(*fields, "", "NO ANSWER", "the box ended before", outside)
    if not evidence:
        outcome: Outcome = "held" if shown else "unproven"
        return Row(*fields, attempt.wall, outcome, heard.said, outside)
    if granted:
        return Row(*fields, "policy", "granted", evidence, outside)
    if reported:
        return Row(*fields, "named at the end", "reported", evidence, outside)
    state = posture.get(attempt.field, "")
    if state == "unenforced":
        evidence = f"{attempt.field} is unenforced here: {evidence}"
    return Row(*fields, "nobody", "ESCAPED", evidence, outside)


def reported_by(kept: Iterable[tuple[str, str]], places: Mapping[str, str]) -> set[str]:
    """The attempts whose marker, or a folder above it, a run names at its end.

    Arguments:
        kept: what the keeper did and saw.
        places: marker places, each with its attempt.
    """
    told = [path for what, path in kept if what in _TOLD]
    return {
        name
        for place, name in places.items()
        if any(place == path or place.startswith(path + os.sep) for path in told)
    }
