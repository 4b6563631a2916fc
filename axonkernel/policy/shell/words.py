"""Words: quoting and expansions, letter by letter as bash reads them.

A word whose value does not follow from the line alone (a variable, a substitution, a glob, a
tilde, braces) is marked as not known. It keeps its place, spelled as in the line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from axonkernel.policy.shell.ansi import ansi_text
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

_TILDE: Final = re.compile(r"(?:\A|[=:])~")
#: Stands for quoted letters where only unquoted ones count.
_QUOTED: Final = "\x01"


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
        building = _Building(source.at)
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
        building = _Building(source.at)
        while source.at < source.end:
            if match := _ORDINARY_IN_DOCUMENT.match(source.text, source.at, source.end):
                source.at = match.end()
            elif source.peek() == "\\":
                source.at += 2
            else:
                self._dollar_or_tick(building, quoted=True)
        return building.word("")

    def _quoted(self, building: _Building, character: str) -> bool:
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

    def _escape(self, building: _Building) -> None:
        source = self._source
        following = source.peek(1)
        if not following:
            raise Unparsable("a backslash at the end")
        if following == "\n":
            # It could glue two characters to one operator.
            raise LineFault("a line continuation inside a word")
        source.at += 2
        building.quoted(following)

    def _double(self, building: _Building) -> None:
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

    def _dollar_or_tick(self, building: _Building, *, quoted: bool) -> None:
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

    def _bare_dollar(self, building: _Building, quoted: bool) -> None:
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
            inside = _Building(start)
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

    def _process(self, building: _Building) -> None:
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


class _Building:
    """A word while it is read."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.file = True
        self.inner: list[Node] = []
        self._text: list[str] = []
        self._lead: list[str] = []
        #: The unquoted letters, with a mark where others stand.
        self._skeleton: list[str] = []
        self._expanded = False
        self._single = True

    def unquoted(self, text: str) -> None:
        self._text.append(text)
        self._skeleton.append(text)
        if not self._expanded:
            self._lead.append(text)

    def quoted(self, text: str) -> None:
        self._text.append(text)
        self._skeleton.append(_QUOTED)
        if not self._expanded:
            self._lead.append(text)

    def expansion(
        self,
        text: str,
        *,
        single: bool,
        inner: Node | None = None,
        more: list[Node] | None = None,
    ) -> None:
        self._text.append(text)
        self._skeleton.append(_QUOTED)
        self._expanded = True
        self._single = self._single and single
        self.inner += [*(() if inner is None else (inner,)), *(more or ())]

    def word(self, raw: str) -> Word:
        text = "".join(self._text)
        skeleton = "".join(self._skeleton)
        lead = "".join(self._lead)
        several = _has_glob(skeleton) or _has_braces(skeleton)
        tilde = _TILDE.search(skeleton) is not None
        if several or tilde:
            # What braces and globs give may start in any way, and so may a home folder.
            lead = ""
        known = not (self._expanded or several or tilde)
        single = self._single and not several
        return Word(text, raw, self.at, known, single, lead, tuple(self.inner), self.file)


def _has_glob(letters: str) -> bool:
    """Whether bash would look for files with these unquoted letters."""
    opening = letters.find("[")
    return "*" in letters or "?" in letters or (opening >= 0 and letters.rfind("]") > opening)


def _has_braces(letters: str) -> bool:
    """Whether there are braces with something to choose from, such as ``{a,b}`` or ``{1..9}``."""
    opening, closing = letters.find("{"), letters.rfind("}")
    if opening < 0 or closing < opening:
        return False
    between = letters[opening:closing]
    return "," in between or ".." in between
