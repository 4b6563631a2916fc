"""Puts boxes under their limits: scopes of systemd, or groups of a delegated cgroup v2.

Standard library only at import.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Sequence

from axonkernel.box import cgroup, direct, scope
from axonkernel.box.model import LimitsPlan
from axonkernel.box.systemd import Manager
from axonkernel.errors import IsolationUnavailable

__all__ = ["Limiter"]


class Limiter:
    """Limits for the boxes of one supervisor, from any thread. Close it at the end.

    Arguments:
        shared: caps that all its boxes hold together; each still has its own.
        brief: for one box; see :func:`axonkernel.box.bus.connect`.
    """

    def __init__(self, shared: LimitsPlan | None = None, *, brief: bool = False) -> None:
        self._shared = shared
        self._brief = brief
        self._lock = threading.Lock()
        self._pid = 0  # the process that what follows belongs to
        self._manager: Manager | None = None
        self._above = ""  # the slice, or the folder, that the boxes' groups are made in
        self._swept = False

    def confine(self, limits: LimitsPlan, pids: Sequence[int], init: int, unit: str = "") -> str:
        """Put ``pids``, which include ``init``, into a new group that holds ``limits``.

        Arguments:
            unit: the name of the scope; made up when "".

        Returns the folder of a group that must be removed at the end, or "" for a scope,
        which systemd removes. Raises IsolationUnavailable; nothing may run then.
        """
        with self._lock:
            self._settle(limits)
            manager, above = self._manager, self._above
        if manager is None:
            return _confine_directly(above, limits, pids)
        unit = unit or scope.scope_name()
        manager.start(unit, scope.properties(limits, slice=above), pids)
        scope.wait_in_cgroup(init, unit, limits)
        return ""

    def sweep(self) -> None:
        """Take away, once, what killed supervisors left. Never fails: it is not our box."""
        with self._lock:
            manager, swept, self._swept = self._manager, self._swept, True
        if manager is not None and not swept:
            with contextlib.suppress(IsolationUnavailable):
                scope.sweep(manager)

    def close(self) -> None:
        """Take the shared group away, with every box in it."""
        with self._lock:
            manager, above, self._above = self._manager, self._above, ""
            if self._shared is None or not above or self._pid != os.getpid():
                return
        if manager is None:
            direct.remove(above)
        else:
            manager.stop(above)

    def _settle(self, limits: LimitsPlan) -> None:
        """Find a way, and make what the boxes share, for the first box of this process."""
        if self._pid == os.getpid():
            return
        try:
            self._manager, self._above = Manager(brief=self._brief), ""
        except IsolationUnavailable as error:
            self._manager, self._above = None, _delegated(limits, self._shared, error)
        if self._manager is not None and self._shared is not None:
            self._above = scope.slice_name()
            self._manager.start(self._above, scope.slice_properties(self._shared), ())
        self._pid = os.getpid()


def _delegated(limits: LimitsPlan, shared: LimitsPlan | None, error: IsolationUnavailable) -> str:
    """Where groups can be made without systemd. Raises ``error`` where there is no such."""
    above = direct.parent(direct.controllers(limits if shared is None else shared))
    if not above:
        raise error
    direct.sweep(above)
    if shared is None:
        return above
    try:
        return direct.make(above, shared, (), boxes=64, shared=True)
    except OSError:
        raise error from None


def _confine_directly(above: str, limits: LimitsPlan, pids: Sequence[int]) -> str:
    try:
        folder = direct.make(above, limits, pids)
    except OSError as error:
        fix = f"delegate it to this user ({error.strerror})"
        raise IsolationUnavailable("limits", f"the cgroup {above}", fix) from None
    if missing := cgroup.of(folder).unheld(limits):
        direct.remove(folder)
        raise scope.unheld(folder, missing)
    return folder
