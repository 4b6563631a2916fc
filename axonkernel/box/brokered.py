"""What of a plan belongs to brokered programs: the shim at their names, the way to ask (pure)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from axonkernel.box import shim
from axonkernel.box.model import BoxPlan, Mount
from axonkernel.box.protections import lies_in

if TYPE_CHECKING:
    from axonkernel.box.host import Host

__all__ = ["SOCKET", "asks", "brokered_files", "brokered_mounts", "with_broker"]

#: Where the socket of the supervisor's broker lies in a box; broker/wire.py has the same.
SOCKET = "/run/axonkernel/broker/socket"


def brokered_mounts(host: Host, *, closed: bool, called: bool = False) -> Iterator[Mount]:
    """The shim in place of each brokered program, and nothing in place of what only they need.

    Arguments:
        closed: nothing of the host's is in the box but what is granted.
        called: the broker is called for narrowed requests as well.
    """
    if host.brokered or called:
        yield Mount("over", SOCKET)  # its source is of one run: with_broker
    if not host.brokered:
        return
    yield from (Mount("over", program.file, host.shim) for program in host.brokered)
    grants = tuple(entry.path for entry in host.grants)
    for folder in host.brokered_folders:
        if not closed or not host.walled or lies_in(folder, grants):
            yield Mount("mask-dir", folder)


def asks(plan: BoxPlan) -> bool:
    """Whether something in the box asks a broker."""
    return any(mount.dest == SOCKET for mount in plan.mounts)


def brokered_files(plan: BoxPlan) -> tuple[str, ...]:
    """Where shims lie in the box."""
    if not asks(plan):
        return ()
    program = shim.path()
    return tuple(mount.dest for mount in plan.mounts if mount.source == program)


def with_broker(plan: BoxPlan, place: str) -> BoxPlan:
    """``plan`` with the socket at which its shims find a broker."""
    mounts = tuple(
        mount._replace(source=place) if mount.dest == SOCKET else mount for mount in plan.mounts
    )
    return plan._replace(mounts=mounts)
