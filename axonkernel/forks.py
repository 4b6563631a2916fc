"""What must not live on in a forked child: connections, and locks that another thread held.

A pre-fork server makes its kernel first and forks its workers then. Each worker is a process
of its own: it must neither speak on the parent's connections nor keep them open, and a lock
that some thread held at the fork will never be opened by it.
"""

from __future__ import annotations

import os
from weakref import WeakSet

from axonkernel.typed import Protocol

__all__ = ["Forgetful", "forget_in_children"]


class Forgetful(Protocol):
    """What has something to let go of in a forked child."""

    def forget(self) -> None:
        """Let go; called in the child, where this thread is the only one."""


_known: WeakSet[Forgetful] = WeakSet()


def forget_in_children(thing: Forgetful) -> None:
    """Have ``thing.forget()`` called in each child that is forked while it lives."""
    _known.add(thing)


def _forget() -> None:
    for thing in list(_known):
        thing.forget()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
