"""Words: quoting and expansions, letter by letter as bash reads them.

A word whose value does not follow from the line alone (a variable, a substitution, a glob, a
tilde, braces) is marked as not known. It keeps its place, spelled as in the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from axonkernel.policy.shell.ansi import ansi_text
from axonkernel.policy.shell.building import Building
from axonkernel.policy.shell.expansions import (
    PARAMETER,
    arithmetic_end,
    arithmetic_names,
    braced_end,
)
from axonkernel.policy.shell.faults import LineFault, Unparsable
from axonkernel.policy.shell.source import META, Source
from axonkernel.policy.shell.tree import Node, Word

__all__ = ["Words"]

#: Runs of characters without a meaning of their own.
_ORDINARY: Final = re.compile(r"[^ \t\n|&;()<>\\'\"$`]+")
_ORDINARY_IN_QUOTES: Final = re.compile(r'[^\\"$`]+')
_ORDINARY_IN_DOCUMENT: Final = re.compile(r"[^\\$`]+")


class Words:
    """Reads words from a source.

    Arguments:
        source: the line.
        commands: reads commands up to a closing token and steps over it.
        numbers: gets every variable that arithmetic touches, with its place.
    """

    def __init__(
        self,
        source: Source,
        commands: Callable[[str], Node],
        numbers: list[tuple[str, int]],
    ) -> None:
        self._source = source
        self._commands = commands
        self._numbers = numbers

    def read(self) -> Word:
        """The word at the position. Raises Unparsable where none starts."""
        source = self._source
        source.count_word()
        building = Building(source.at)
        while source.at < source.end:
            character = source.text[source.at]
            if character in META:
                if character not in "<>" or source.peek(1) != "(":
                    break
                self._process(building)
            elif not self._quoted(building, character):
                match = _ORDINARY.match(source.text, source.at, source.end)
                assert match is not None
                source.at = match.end()
                source.count_word(sum(map(match[0].count, "{}[]")))
                building.unquoted(match[0])
        if source.at == building.at:
            raise source.unexpected()
        return building.word(source.text[building.at : source.at])

    def document(self) -> Word:
        """A here-document's text up to the source's end, expanded as between quotes."""
        source = self._source
        building = Building(source.at)
        while source.at < source.end:
            if match := _ORDINARY_IN_DOCUMENT.match(source.text, source.at, source.end):
                source.at = match.end()
            elif source.peek() == "\\":
                source.at += 2
            else:
                self._dollar_or_tick(building, quoted=True)
        return building.word("")

    def _quoted(self, building: Building, character: str) -> bool:
        """Read what starts with a special character; False for an ordinary one."""
        source = self._source
        if character == "'":
            building.quoted(self._single(source.at + 1))
        elif character == '"':
            source.at += 1
            self._double(building)
        elif character == "\\":
            self._escape(building)
        elif character in "$`":
            self._dollar_or_tick(building, quoted=False)
        else:
            return False
        return True

    def _single(self, start: int) -> str:
        """The text of a single-quoted string."""
        source = self._source
        stop = source.text.find("'", start, source.end)
        if stop < 0:
            raise Unparsable("an unclosed '")
        source.at = stop + 1
        return source.text[start:stop]

    def _escape(self, building: Building) -> None:
        source = self._source
        following = source.peek(1)
        if not following:
            raise Unparsable("a backslash at the end")
        if following == "\n":
            # It could glue two characters to one operator.
            raise LineFault("a line continuation inside a word")
        source.at += 2
        building.quoted(following)

    def _double(self, building: Building) -> None:
        """The rest of a double-quoted string."""
        source = self._source
        building.quoted("")
        while True:
            character = source.peek()
            if not character:
                raise Unparsable('an unclosed "')
            if match := _ORDINARY_IN_QUOTES.match(source.text, source.at, source.end):
                source.at = match.end()
                building.quoted(match[0])
            elif character == '"':
                source.at += 1
                return
            elif character == "\\":
                following = source.peek(1)
                source.at += 2
                if following != "\n":
                    building.quoted(following if following in '$`"\\' else "\\" + following)
            else:
                self._dollar_or_tick(building, quoted=True)

    def _dollar_or_tick(self, building: Building, *, quoted: bool) -> None:
        source = self._source
        source.count_word()
        start, inner = source.at, None
        if source.peek() == "`":
            inner = self._ticks(quoted)
        elif source.starts("$(("):
            source.at = arithmetic_end(source.text, start + 3, source.end)
            names = arithmetic_names(source.text, start + 3, source.at - 2)
            source.count_word(len(names))
            self._numbers += names
            # The result is a number, whatever it is.
            building.expansion(source.text[start : source.at], single=True)
            return
        elif source.take("$("):
            inner = self._commands(")")
        elif source.starts("${"):
            source.at = braced_end(source.text, start, source.end)
        elif source.starts("$["):
            raise LineFault("$[...], the old spelling of arithmetic, is not analysed")
        elif match := PARAMETER.match(source.text, start + 1, source.end):
            source.at = match.end()
        else:
            self._bare_dollar(building, quoted)
            return
        text = source.text[start : source.at]
        # "$@" is any number of words in quotes too.
        one = (quoted and "@" not in text) or text in ("$#", "$?", "$$", "$!")
        building.expansion(text, single=one, inner=inner)

    def _bare_dollar(self, building: Building, quoted: bool) -> None:
        """A dollar sign with no name behind it: itself, or the start of a quoted string."""
        source = self._source
        if source.peek(1) == "\\" and source.peek(2) == "\n":
            # bash drops the two and takes what follows for the expansion.
            raise LineFault("a line continuation behind a dollar sign")
        if quoted or source.peek(1) not in ("'", '"'):
            source.at += 1
            building.quoted("$")
        elif source.peek(1) == '"':
            # A translation, if there is one: any text.
            start = source.at
            source.at += 2
            inside = Building(start)
            self._double(inside)
            building.expansion(source.text[start : source.at], single=True, more=inside.inner)
        else:
            building.quoted(ansi_text(self._ansi_body()))

    def _ansi_body(self) -> str:
        source = self._source
        place = start = source.at + 2
        while place < source.end and source.text[place] != "'":
            place += 2 if source.text[place] == "\\" else 1
        if place >= source.end:
            raise Unparsable("an unclosed $'")
        source.at = place + 1
        return source.text[start:place]

    def _ticks(self, quoted: bool) -> Node:
        """`` `commands` ``: bash takes the text first and reads it as a line of its own."""
        source = self._source
        stop = source.text.find("`", source.at + 1, source.end)
        if stop < 0:
            raise Unparsable("an unclosed `")
        body = source.text[source.at + 1 : stop]
        if any(character in body for character in '\\\n#"' if quoted or character != '"'):
            raise LineFault("backticks with quotes, escapes or comments; write $(...)")
        outer, source.end = source.end, stop
        source.at += 1
        inner = self._commands("")
        source.end = outer
        source.at = stop + 1
        return inner

    def _process(self, building: Building) -> None:
        """``<(commands)``, only as a word of its own."""
        source = self._source
        start = source.at
        if start != building.at:
            raise LineFault("a process substitution glued to other text")
        source.at += 2
        inner = self._commands(")")
        building.expansion(source.text[start : source.at], single=True, inner=inner)
        if source.peek() and source.peek() not in META:
            raise LineFault("a process substitution glued to other text")
        building.file = False
