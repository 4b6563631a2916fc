"""How many names, and which, a box may ask for below the star of a grant (pure).

Whatever stands for the star reaches the name servers of the granted domain: a way out for data.
It is made narrow, not closed: a name has the length of a name, and new ones are counted.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from axonkernel.box.resolver.granted import Granted

__all__ = ["BURST", "PER_S", "Flow"]

#: New names at once, and how many more each second.
BURST, PER_S = 4096, 10.0
_REMEMBERED = 4096


class Flow:
    """Counts the names of one box that only a star grants."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._left = float(BURST)
        self._counted_s = clock()
        self._known: dict[str, None] = {}

    def takes(self, name: str, granted: Granted) -> bool:
        """Whether a granted name may be asked about now."""
        if name in self._known:
            return True
        free = granted.free_part(name)
        if free is None:
            return True
        if not granted.is_plausible(free) or not self._take_one():
            return False
        self._known[name] = None
        if len(self._known) > _REMEMBERED:
            del self._known[next(iter(self._known))]
        return True

    def _take_one(self) -> bool:
        now_s = self._clock()
        self._left = min(float(BURST), self._left + (now_s - self._counted_s) * PER_S)
        self._counted_s = now_s
        if self._left < 1.0:
            return False
        self._left -= 1.0
        return True
