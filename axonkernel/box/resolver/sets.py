"""The addresses that names lead to, in the sets of the box's table, for as long as they hold.

Standard library only.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from axonkernel.box import nft
from axonkernel.box.model import NetPlan
from axonkernel.box.resolver.spans import Span

__all__ = ["MOST", "SLACK_S", "Full", "Sets"]

#: Elements at one time. A name whose owner answers without end fills no more of the kernel.
MOST = 16_384
#: An element outlives the answer it is for by so much: a program connects a moment later.
SLACK_S = 5

_Element = tuple[str, str, str]


class Full(Exception):
    """There are as many elements as there may be."""


class Sets:
    """What this box can reach by name just now.

    Arguments:
        net: which sets there are.
        add: puts elements into the sets of one beginning, renewing those that may be there.
        most: elements at one time.
    """

    def __init__(
        self,
        net: NetPlan,
        add: Callable[..., None] = nft.add_elements,
        most: int = MOST,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._net = net
        self._add = add
        self._most = most
        self._clock = clock
        self._until_s: dict[_Element, float] = {}

    def __len__(self) -> int:
        return len(self._until_s)

    def let(self, addresses: Iterable[str], spans: Iterable[Span], for_s: int) -> None:
        """Let ``addresses`` be reached at ``spans`` for ``for_s`` seconds from now at least.

        Returns when that is so. Raises Full, or BoxError when the kernel does not take it.
        """
        until_s = self._clock() + for_s
        ports = [(span.protocol, span.text) for span in spans]
        wanted = [(address, *each) for address in addresses for each in ports]
        missing = [each for each in wanted if self._until_s.get(each, 0.0) < until_s]
        if not missing:
            return
        if len(self._until_s) + len(missing) > self._most:
            self._forget_old()
        if len(self._until_s) + len(missing) > self._most:
            raise Full
        self._put(missing, for_s + SLACK_S)
        for element in missing:
            self._until_s[element] = until_s + SLACK_S

    def _put(self, elements: list[_Element], timeout_s: int) -> None:
        sets: dict[str, list[_Element]] = {}
        for element in elements:
            _, protocol, ports = element
            into = nft.named_set(self._net, protocol, ports)
            sets.setdefault(into, []).append(element)
        for into, some in sets.items():
            self._add(some, timeout_s, into)

    def _forget_old(self) -> None:
        now_s = self._clock()
        self._until_s = {each: end_s for each, end_s in self._until_s.items() if end_s > now_s}
