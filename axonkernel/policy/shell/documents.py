"""Here-documents: text behind the line that names them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from axonkernel.policy.shell.faults import LineFault, Unparsable
from axonkernel.policy.shell.source import Source
from axonkernel.policy.shell.tree import Node
from axonkernel.policy.shell.words import Words

__all__ = ["Documents"]

#: Ordinary spellings of the end mark: quoted as a whole, with one backslash, or plain.
_MARK: Final = re.compile(
    r"(?:'([^'\n]+)'|\"([^\"\n$`\\]+)\"|\\([A-Za-z0-9_.-]+)|([A-Za-z0-9_.-]+))"
    r"(?=[ \t\n|&;()<>]|\Z)"
)


class _Announced(NamedTuple):
    mark: str
    quoted: bool
    strip: bool


class Documents:
    """The here-documents of one line, in the order of their marks.

    Attributes:
        inner: the commands of substitutions in their text.
    """

    def __init__(self, source: Source, words: Words) -> None:
        self._source = source
        self._words = words
        self._announced: list[_Announced] = []
        self._nested = 0
        self.inner: list[Node] = []

    @property
    def waiting(self) -> bool:
        """Whether a document's text is still to come."""
        return bool(self._announced)

    def announce(self, *, strip: bool) -> None:
        """Read an end mark; the text comes behind the next newline."""
        source = self._source
        match = _MARK.match(source.text, source.at, source.end)
        if match is None:
            raise LineFault("a here-document with an unusual end mark")
        source.at = match.end()
        mark = match[1] or match[2] or match[3] or match[4]
        self._announced.append(_Announced(mark, match[4] is None, strip))

    def read(self) -> None:
        """Read the text of all that were announced; the position is behind a newline."""
        announced, self._announced = self._announced, []
        for document in announced:
            self._read_one(document)

    def _read_one(self, document: _Announced) -> None:
        source = self._source
        start = place = source.at
        while place < source.end:
            stop = source.text.find("\n", place, source.end)
            stop = source.end if stop < 0 else stop
            line = source.text[place:stop]
            if (line.lstrip("\t") if document.strip else line) == document.mark:
                self._expand(document, start, place)
                source.at = min(stop + 1, source.end)
                return
            if self._nested and line.lstrip("\t").startswith(document.mark) and ")" in line:
                # Inside $(...) bash ends the text here, for compatibility.
                raise LineFault("a here-document in a substitution with a doubtful end mark")
            if not document.quoted and (len(line) - len(line.rstrip("\\"))) % 2:
                raise LineFault("a here-document with a line that ends in a backslash")
            place = stop + 1
        raise Unparsable(f"a here-document without its end mark {document.mark}")

    def _expand(self, document: _Announced, start: int, stop: int) -> None:
        if document.quoted:
            return
        source = self._source
        outer, source.at, source.end = source.end, start, stop
        self.inner += self._words.document().inner
        source.end = outer

    def set_aside(self) -> list[_Announced]:
        """Start a substitution; what was announced outside it waits."""
        outer, self._announced = self._announced, []
        self._nested += 1
        return outer

    def take_back(self, outer: list[_Announced], text: str) -> None:
        """End a substitution that read ``text``."""
        self.require_none()
        self._nested -= 1
        if outer:
            self.refuse_newline(text, force=True)
        self._announced = outer

    def refuse_newline(self, text: str, *, force: bool = False) -> None:
        """Refuse text that runs over a newline while documents wait for one."""
        if "\n" in text and (force or self._announced):
            raise LineFault("a here-document whose line goes on inside quotes")

    def require_none(self) -> None:
        """Refuse an end before a document's text."""
        if self._announced:
            raise Unparsable("a here-document without its text")
