"""Simple commands: assignments, words and redirections."""

from __future__ import annotations

import re
from typing import Final

from axonkernel.policy.shell.documents import Documents
from axonkernel.policy.shell.expansions import arithmetic_end
from axonkernel.policy.shell.faults import LineFault
from axonkernel.policy.shell.names import ASSIGNMENT
from axonkernel.policy.shell.source import Source
from axonkernel.policy.shell.tree import Assignment, Node, Redirection, Simple, Word
from axonkernel.policy.shell.words import Words

__all__ = ["SimpleCommands"]

#: A redirection operator, with the descriptor it is for.
_OPERATOR: Final = re.compile(r"&>>?|[0-9]*(<<<|<<-|<<|[<>]&-|<&|<>|<(?!\()|>>|>&|>\||>(?!\())")
#: A descriptor that bash chooses and stores in a variable.
_CHOSEN: Final = re.compile(r"\{[^ \t\n|&;()<>]*\}[<>]")
#: What a copied descriptor looks like.
_DESCRIPTOR: Final = re.compile(r"[0-9]+-?")
_BARE: Final = re.compile(r"[A-Za-z0-9_./+:,@%-]+")
_NUMBER: Final = re.compile(r"-?[0-9]+")


class SimpleCommands:
    """Reads simple commands from a source."""

    def __init__(self, source: Source, words: Words, documents: Documents) -> None:
        self._source = source
        self._words = words
        self._documents = documents

    def read(self) -> Simple:
        """The command at the position, up to the operator that ends it.

        Stops before an opening parenthesis too. Raises Unparsable where no command starts.
        """
        source, start = self._source, self._source.at
        building = _Building()
        while self._more():
            if self._redirection(building):
                pass
            elif not building.words and (match := ASSIGNMENT.match(source.text, source.at)):
                building.assign(match, self._word())
                if source.peek() == "(":
                    raise LineFault("an array")
            else:
                building.words.append(self._word())
            source.skip_blanks()
        if building.empty:
            raise source.unexpected()
        return building.simple(start)

    def named(self) -> Simple:
        """The name behind ``function``."""
        self._source.skip_blanks()
        word = self._word()
        self._source.skip_blanks()
        return Simple(word.at, (word,))

    def redirections(self, start: int) -> Simple | None:
        """The redirections of a compound command, or None."""
        building = _Building()
        self._source.skip_blanks()
        while self._redirection(building):
            self._source.skip_blanks()
        return None if building.empty else building.simple(start)

    def _more(self) -> bool:
        """Whether a word or redirection stands at the position."""
        source = self._source
        character = source.peek()
        if character in ("", "\n", ";", "|", ")", "(", "#"):
            return False
        return character != "&" or source.peek(1) == ">"

    def _word(self) -> Word:
        word = self._words.read()
        self._documents.refuse_newline(word.raw)
        return word

    def _redirection(self, building: _Building) -> bool:
        """Read a redirection; False where none starts."""
        source = self._source
        if _CHOSEN.match(source.text, source.at, source.end):
            raise LineFault("a redirection to a descriptor that bash chooses")
        match = _OPERATOR.match(source.text, source.at, source.end)
        if match is None:
            return False
        building.redirected = True
        source.at = match.end()
        operator = match[1] or match[0]
        if operator in ("<&-", ">&-"):
            return True  # closes a descriptor; whatever follows is another word
        source.skip_blanks()
        if operator in ("<<", "<<-"):
            self._documents.announce(strip=operator == "<<-")
            return True
        target = self._word()
        building.inner += target.inner
        if operator == "<<<" or not target.file:
            return True
        if operator in ("<&", ">&"):
            if _DESCRIPTOR.fullmatch(target.raw):
                return True
            if not _BARE.fullmatch(target.raw):
                # bash expands this word, takes the result for a word, and expands it again.
                raise LineFault(f"{operator} with anything but a descriptor or a plain name")
        building.redirects.append(Redirection(target, operator not in ("<", "<&")))
        return True


def _is_number(word: Word, start: int) -> bool:
    """Whether a word from ``start`` on, behind its ``=``, is a number in any case."""
    value = word.raw[start:]
    if value[:1] == value[-1:] == '"':
        value = value[1:-1]
    if not value.startswith("$(("):
        return _NUMBER.fullmatch(value) is not None
    try:
        return arithmetic_end(value, 3, len(value)) == len(value)
    except LineFault:
        return False


class _Building:
    """A simple command while it is read."""

    def __init__(self) -> None:
        self.words: list[Word] = []
        self.assigns: list[Assignment] = []
        self.redirects: list[Redirection] = []
        self.inner: list[Node] = []
        self.redirected = False

    @property
    def empty(self) -> bool:
        return not (self.words or self.assigns or self.redirected)

    def assign(self, match: re.Match[str], word: Word) -> None:
        if match[2] is not None:
            raise LineFault("an assignment with a subscript")
        numeric = _is_number(word, len(match[0])) and not match[0].endswith("+=")
        self.assigns.append(Assignment(match[1], word.at, numeric))
        self.inner += word.inner

    def simple(self, start: int) -> Simple:
        inner = [*self.inner, *(node for word in self.words for node in word.inner)]
        return Simple(
            start, tuple(self.words), tuple(self._assigned()), tuple(self.redirects), tuple(inner)
        )

    def _assigned(self) -> list[Assignment]:
        """The assignments; where a redirection may fail, nothing is known of their values."""
        if not self.redirected:
            return self.assigns
        return [each._replace(numeric=False) for each in self.assigns]
