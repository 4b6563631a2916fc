"""What holds in a kernel that mediates inside an ordinary process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from axonkernel.kernel.walls import has_landlock
from axonkernel.policy.model import Policy
from axonkernel.process import needs_box

if TYPE_CHECKING:
    from axonkernel.box.model import PostureField

__all__ = ["posture_of"]

_LISTEN = "for one program of process.spawn at a time; those of process.run have no ports"

_WALLED = ("fs", "net", "env", "shell", "limits")
_CONFINABLE = ("fs", "net", "env", "shell")
_BOTH = "programs: a box for each call; tools and handlers in this process: the mediator"
_CONFINED = (
    "programs: confined without a box, as the result of each says; tools and handlers in this "
    "process: the mediator"
)


def posture_of(policy: Policy, *, inside: bool) -> tuple[PostureField, ...]:
    """The rows for ``policy``. Nothing is claimed for this process beyond the mediator."""
    from axonkernel.box.model import PostureField
    from axonkernel.box.posture import bare, mediated

    rows = mediated(policy)
    if not needs_box(policy, inside=inside):
        if policy.effective_isolation != "best-effort" or inside:
            return rows
        rows = bare(policy, mediated=True)
        if not has_landlock():
            return rows
        return tuple(
            row._replace(note=_CONFINED)
            if row.field in _CONFINABLE and row.state != "open"
            else row
            for row in rows
        )
    walled = tuple(
        row._replace(by="mediator", note=_BOTH)
        if row.field in _WALLED and row.state == "mediator only"
        else row
        for row in rows
    )
    if policy.net is None or not policy.net.listen:
        return walled
    return (*walled, PostureField("net.listen", "enforced", "a box for each call", _LISTEN))
