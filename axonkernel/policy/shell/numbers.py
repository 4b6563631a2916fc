"""Variables that hold a number: arithmetic evaluates whatever text is in the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from axonkernel.policy.shell.faults import LineFault
from axonkernel.policy.shell.tree import Node, Simple, Word
from axonkernel.policy.shell.walk import assignments, certain

__all__ = ["Numbers", "Settled"]


class Settled(NamedTuple):
    """A variable that holds a number from one place to another; to the end when that is None."""

    name: str
    start: int
    end: int | None = None


class Numbers:
    """What is known of the numbers in a line.

    A variable counts when it is set to a number for certain before it is used, and to nothing
    else anywhere in the line.

    Arguments:
        settled: the variables of loops.
        root: the line.
        simples: its commands.
    """

    def __init__(self, settled: Iterable[Settled], root: Node, simples: tuple[Simple, ...]) -> None:
        self._settled: dict[str, list[Settled]] = {}
        for each in settled:
            self._settled.setdefault(each.name, []).append(each)
        for node in certain(root):
            if isinstance(node, Simple) and not node.words:
                for one in node.assigns:
                    if one.numeric:
                        self._settled.setdefault(one.name, []).append(Settled(one.name, one.at))
        self._texts = {
            each.name for simple in simples for each in assignments(simple) if not each.numeric
        }

    def holds(self, name: str, at: int) -> bool:
        """Whether a variable is a number at a place."""
        if name in self._texts:
            return False
        return any(
            each.start <= at and (each.end is None or at < each.end)
            for each in self._settled.get(name, ())
        )

    def require(self, used: Iterable[tuple[str, int]]) -> None:
        """Refuse arithmetic over a variable that may hold text."""
        for name, at in used:
            if not self.holds(name, at):
                raise LineFault(f"arithmetic over {name}, which is not known to be a number")

    def sharpened(self, words: tuple[Word, ...]) -> tuple[Word, ...]:
        """``words``, where an unquoted number is one word as a quoted one is."""
        return tuple(
            word._replace(single=True)
            if not word.single and word.raw[:1] == "$" and self.holds(word.raw[1:], word.at)
            else word
            for word in words
        )
