"""``[[ ... ]]``: it runs nothing by itself, but some of its operators evaluate text."""

from __future__ import annotations

import re
from typing import Final

from axonkernel.policy.shell.faults import LineFault
from axonkernel.policy.shell.source import Source
from axonkernel.policy.shell.tree import Simple, Word
from axonkernel.policy.shell.words import Words

__all__ = ["Conditions"]

_OPERATORS: Final = ("&&", "||", "(", ")", "<", ">")
#: These take arithmetic, so that a variable with a subscript in it runs commands.
_NUMERIC: Final = frozenset({"-eq", "-ne", "-lt", "-le", "-gt", "-ge"})
_NUMBER: Final = re.compile(r"-?[0-9]+|\$[#?]|\$([A-Za-z_][A-Za-z0-9_]*)")


class Conditions:
    """Reads conditions from a source.

    Arguments:
        numbers: gets the variables that are compared as numbers, with their places.
    """

    def __init__(self, source: Source, words: Words, numbers: list[tuple[str, int]]) -> None:
        self._source = source
        self._words = words
        self._numbers = numbers

    def read(self, start: int) -> Simple:
        """The condition from behind ``[[``."""
        items = self._items()
        for place, item in enumerate(items):
            if item is None:
                continue
            if item.raw in ("-v", "-R"):
                raise LineFault(f"[[ {item.raw} ]], which evaluates its operand")
            if item.raw in _NUMERIC:
                self._number(items[place - 1] if place else None)
                self._number(items[place + 1] if place + 1 < len(items) else None)
            elif item.raw == "=~" and items[place + 1 : place + 2] == [None]:
                raise LineFault("a regular expression that starts with an operator")
        inner = [node for item in items if item is not None for node in item.inner]
        return Simple(start, inner=tuple(inner))

    def _items(self) -> list[Word | None]:
        """The words, with None for operators."""
        source, items = self._source, list[Word | None]()
        while True:
            source.skip_blanks()
            process = source.starts("<(") or source.starts(">(")
            if not process and any(source.take(operator) for operator in _OPERATORS):
                items.append(None)
                continue
            if source.peek() in ("\n", "#"):
                raise LineFault("a condition over several lines")
            word = self._words.read()
            if word.raw == "]]":
                return items
            items.append(word)

    def _number(self, word: Word | None) -> None:
        """Refuse an operand of a comparison that may not be a number."""
        match = _NUMBER.fullmatch(word.text) if word is not None else None
        if word is None or match is None or (word.known and match[0].startswith("$")):
            raise LineFault("a comparison over something that is not known to be a number")
        if match[1]:
            self._numbers.append((match[1], word.at))
