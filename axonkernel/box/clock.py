"""A wall clock that stands still while a human is being asked."""

from __future__ import annotations

import time

__all__ = ["WallClock"]


class WallClock:
    """Counts running time against a limit.

    Arguments:
        limit_s: seconds of running time; 0 for no limit.
    """

    def __init__(self, limit_s: float) -> None:
        self._left_s = limit_s
        self._limited = limit_s > 0
        self._since: float | None = time.monotonic()

    def left_s(self) -> float | None:
        """Seconds left, never below 0; None when nothing counts down just now."""
        if not self._limited or self._since is None:
            return None
        return max(0.0, self._left_s - (time.monotonic() - self._since))

    def pause(self) -> None:
        """Stop counting."""
        left = self.left_s()
        if left is not None:
            self._left_s, self._since = left, None

    def resume(self) -> None:
        """Count again."""
        if self._since is None:
            self._since = time.monotonic()
