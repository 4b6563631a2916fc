"""The text of a line, a place in it, and the caps."""

from __future__ import annotations

from typing import Final

from axonkernel.policy.shell.faults import LineFault, TooComplex, Unparsable

__all__ = ["BLANK", "DEEPEST", "META", "MOST_TEXT", "MOST_WORDS", "Source"]

#: Beyond these a line is not analysed. A level of nesting costs this reader up to eleven stack
#: frames, and the interpreter has 1,000 for it and whoever called: its cap lies well below the
#: 200 that no request may reach. A line that people write is not nested ten deep.
MOST_TEXT: Final = 1 << 20
MOST_WORDS: Final = 10_000
DEEPEST: Final = 48

#: What separates words. Other white space (carriage return, vertical tab, no-break space)
#: is part of a word in bash.
BLANK: Final = frozenset(" \t")
#: What ends a word outside quotes.
META: Final = frozenset(" \t\n|&;()<>")


class Source:
    """A text with a reading position.

    Arguments:
        text: the whole line; positions count its characters.
    """

    def __init__(self, text: str) -> None:
        if len(text) > MOST_TEXT:
            raise TooComplex(f"a line of {len(text)} characters")
        self.text = text
        self.at = 0
        #: Reading stops here, which lies before the end of the text in a here-document.
        self.end = len(text)
        self._words = 0
        self._depth = 0

    def peek(self, ahead: int = 0) -> str:
        """The character at the position, or "" behind the end."""
        place = self.at + ahead
        return self.text[place] if place < self.end else ""

    def starts(self, token: str) -> bool:
        """Whether ``token`` stands at the position."""
        return self.text.startswith(token, self.at, self.end)

    def take(self, token: str) -> bool:
        """Step over ``token`` if it stands at the position."""
        if not self.starts(token):
            return False
        self.at += len(token)
        return True

    def skip_blanks(self) -> None:
        """Step over blanks and line continuations.

        A continuation has a blank on one side: without, it could make one operator of two.
        """
        while True:
            if self.at < self.end and self.text[self.at] in BLANK:
                self.at += 1
            elif self.starts("\\\n"):
                before = self.text[self.at - 1] if self.at else " "
                if before not in " \t\n" and self.peek(2) not in BLANK:
                    raise LineFault("a line continuation with no blank beside it")
                self.at += 2
            else:
                return

    def count_word(self, count: int = 1) -> None:
        """Note more words, expansions or brackets. Raises TooComplex beyond the cap."""
        self._words += count
        if self._words > MOST_WORDS:
            raise TooComplex(f"more than {MOST_WORDS} words and expansions")

    def deeper(self) -> None:
        """Note one more level of nesting. Raises TooComplex beyond the cap."""
        self._depth += 1
        if self._depth > DEEPEST:
            raise TooComplex(f"nested deeper than {DEEPEST}")

    def shallower(self) -> None:
        """Leave a level of nesting."""
        self._depth -= 1

    def unexpected(self) -> Unparsable:
        """The fault of whatever stands at the position."""
        found = self.peek()
        return Unparsable(f"unexpected {found!r}" if found else "it ends too early")
