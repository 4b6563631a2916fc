"""Which walls stand around a call, below the mediator. Pure, but for what the machine has."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Iterable
from functools import cache
from typing import TYPE_CHECKING

from axonkernel.policy.model import Policy
from axonkernel.policy.request import AnyRequest, ProcessRequest, ShellRequest, ToolRequest

if TYPE_CHECKING:
    from axonkernel.box.model import PostureField

__all__ = [
    "has_broker",
    "has_landlock",
    "has_to_end",
    "held_around",
    "narrowed",
    "needs_confining",
    "takes_part",
    "touches",
    "walls_of",
]

#: The blocks that something below the mediator can hold for a program or a request.
_BLOCKS = ("fs", "net", "shell", "env", "limits")


def narrowed(policy: Policy, base: Policy) -> frozenset[str]:
    """The blocks in which ``policy``, which is ``base`` and more, is narrower."""
    return frozenset(name for name in _BLOCKS if getattr(policy, name) != getattr(base, name))


def touches(policy: Policy) -> bool:
    """Whether a narrowing declares anything that a worker can hold."""
    closed = policy.closed()
    return any(getattr(closed, name) is not None for name in _BLOCKS)


def has_to_end(policy: Policy) -> bool:
    """Whether nothing that a call starts may go on after it."""
    return policy.shell is not None and policy.shell.spawn == 0


def takes_part(policy: Policy, base: Policy) -> bool:
    """Whether ``policy`` leaves a part of the network that ``base`` has, which only a network
    of its own can hold."""
    net = policy.net
    return net is not None and net != base.net and bool(net.allow or net.escalate)


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


def walls_of(
    request: AnyRequest,
    policy: Policy,
    base: Policy,
    *,
    inside: bool,
    boxed: bool,
    landlock: bool,
    brokered: Collection[str] = (),
    broker: bool = True,
) -> tuple[str, ...]:
    """What stands around a call where it is allowed, the mediator first.

    Arguments:
        request: canonical.
        policy, base, inside: see :func:`needs_confining`.
        boxed: programs get boxes of their own.
        landlock: this machine can confine without a box.
        brokered: files of programs that the supervisor starts, each in a box of its own.
        broker: it can be asked to.
    """
    around = ("box",) if inside else ()
    block = isinstance(request, ToolRequest) and request.name == "block.python"
    if not block and not isinstance(request, (ProcessRequest, ShellRequest)):
        return ("mediator", *around)
    leaves = isinstance(request, ProcessRequest) and request.resolved in brokered
    leaves |= inside and broker and not block and takes_part(policy, base)
    if leaves:
        return ("mediator", "broker", "box")
    if boxed:
        return ("mediator", "box")
    confined = (inside and block) or needs_confining(policy, base, inside=inside)
    return ("mediator", *around, *(("landlock",) if confined and landlock else ()))


@cache
def has_landlock() -> bool:
    """Whether this machine can confine a program without a box."""
    if sys.platform != "linux":
        return False
    from axonkernel.box import landlock

    return landlock.abi() >= landlock.TRUSTED_SINCE_ABI


def has_broker() -> bool:
    """Whether the supervisor of the box around this process starts programs for it."""
    from axonkernel.broker.wire import BROKER_SOCKET

    return os.path.exists(BROKER_SOCKET)
