"""Which walls stand around a call, below the mediator. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from axonkernel.policy.model import Policy

if TYPE_CHECKING:
    from axonkernel.box.model import PostureField

__all__ = ["held_around", "narrowed", "needs_confining"]

#: The blocks that something below the mediator can hold for a program.
_BLOCKS = ("fs", "net", "shell", "env", "limits")


def narrowed(policy: Policy, base: Policy) -> frozenset[str]:
    """The blocks in which ``policy``, which is ``base`` and more, is narrower."""
    return frozenset(name for name in _BLOCKS if getattr(policy, name) != getattr(base, name))


def needs_confining(policy: Policy, base: Policy, *, inside: bool) -> bool:
    """Whether a program that gets no box of its own gives up by itself what it can.

    Arguments:
        policy: what holds for the call.
        base: what the kernel was made with, and the box around it, if there is one.
        inside: whether there is.
    """
    if inside:
        return bool(narrowed(policy, base) - {"limits"})
    return policy.effective_isolation == "best-effort"


def held_around(policy: Policy, base: Policy, posture: Iterable[PostureField]) -> tuple[str, ...]:
    """The fields that the box around this process holds for a program of a call.

    It holds ``base``: of a block that is narrower for the call it does not hold all.
    """
    changed = narrowed(policy, base)
    return tuple(
        row.field
        for row in posture
        if row.state == "enforced" and row.field.partition(".")[0] not in changed
    )
