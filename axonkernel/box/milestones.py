"""The milestones of a launch, by name: where a test can look, stop or kill.

In production nobody observes, and one costs a comparison. Standard library only.
"""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["MILESTONES", "observe", "reached"]

#: In the order they are reached, with who reaches them; the two work at once.
MILESTONES = {
    "asked": "warden",
    "spawned": "warden",
    "made": "warden",
    "built": "supervisor",
    "walled": "warden",
    "scoped": "supervisor",
    "confined": "warden",
    "opened": "warden",
    "mounted": "warden",
    "held": "warden",
    "checked": "warden",
    "linked": "warden",
    "released": "warden",
    "running": "supervisor",
}

_observer: Callable[[str], None] | None = None


def observe(observer: Callable[[str], None] | None) -> None:
    """Have ``observer`` called with the name of each milestone, in the process that reached
    it: this one and those forked from it after this call."""
    global _observer
    _observer = observer


def reached(name: str) -> None:
    """A milestone is reached."""
    if _observer is not None:
        _observer(name)
