"""Compound commands with reserved words of their own: if, case and loops."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from axonkernel.policy.shell.expansions import IDENTIFIER, arithmetic_end, arithmetic_names
from axonkernel.policy.shell.faults import LineFault
from axonkernel.policy.shell.numbers import Settled
from axonkernel.policy.shell.tree import Assignment, Block, Node, Simple, Word

if TYPE_CHECKING:
    from axonkernel.policy.shell.grammar import Grammar

__all__ = ["Loops"]

_RANGE: Final = re.compile(r"-?[0-9]+|\{-?[0-9]+\.\.-?[0-9]+\}")
_FIRST: Final = re.compile(r"[ \t]*([A-Za-z_][A-Za-z0-9_]*)[ \t]*=[ \t]*[0-9]+[ \t]*;")


class Loops:
    """Reads them, with the help of the whole grammar."""

    def __init__(self, grammar: Grammar) -> None:
        self._grammar = grammar
        self._source = grammar.source

    def read(self, reserved: str) -> Node:
        """The command from behind its first word."""
        if reserved == "if":
            return self._if()
        if reserved in ("while", "until"):
            condition = self._grammar.commands("do")
            return Block("some", (condition, self._body()))
        if reserved == "for":
            return self._for()
        if reserved == "case":
            return self._case()
        if reserved in ("coproc", "select"):
            raise LineFault(f"{reserved} is not analysed")
        self._source.at -= len(reserved)
        raise self._source.unexpected()

    def _body(self) -> Node:
        grammar = self._grammar
        grammar.expect("do")
        body = grammar.commands("done")
        grammar.expect("done")
        return body

    def _if(self) -> Node:
        grammar, parts = self._grammar, list[Node]()
        while True:
            parts.append(grammar.commands("then"))
            grammar.expect("then")
            parts.append(grammar.commands("elif", "else", "fi"))
            if grammar.reserved() != "elif":
                break
            grammar.expect("elif")
        if grammar.reserved() == "else":
            grammar.expect("else")
            parts.append(grammar.commands("fi"))
        grammar.expect("fi")
        return Block("some", tuple(parts))

    def _for(self) -> Node:
        source, grammar = self._source, self._grammar
        source.skip_blanks()
        if source.starts("(("):
            return self._counting()
        start = source.at
        match = IDENTIFIER.match(source.text, start, source.end)
        word = grammar.words.read()
        if match is None or match[0] != word.raw:
            raise source.unexpected()
        words = self._in()
        numeric = bool(words) and all(_RANGE.fullmatch(each.raw) for each in words)
        body = self._body()
        if numeric:
            grammar.settled.append(Settled(word.raw, start, source.at))
        inner = tuple(node for each in words for node in each.inner)
        variable = Simple(start, assigns=(Assignment(word.raw, start, numeric),), inner=inner)
        return Block("some", (variable, body))

    def _in(self) -> list[Word]:
        """The words a loop goes over; without ``in`` the positional ones."""
        source, grammar, words = self._source, self._grammar, list[Word]()
        grammar.newlines()
        if grammar.reserved() != "in":
            source.take(";")
            return words
        source.at += len("in")
        source.skip_blanks()
        while source.peek() not in ("\n", ";", "#", ""):
            words.append(grammar.words.read())
            grammar.documents.refuse_newline(words[-1].raw)
            source.skip_blanks()
        if not source.take(";"):
            grammar.newlines()
        return words

    def _counting(self) -> Node:
        """``for ((first; condition; next))``."""
        source, grammar, start = self._source, self._grammar, self._source.at
        source.at = arithmetic_end(source.text, start + 2, source.end)
        grammar.numbers += arithmetic_names(source.text, start + 2, source.at - 2)
        first = _FIRST.match(source.text, start + 2, source.at)
        source.skip_blanks()
        source.take(";")
        body = self._body()
        if first is None:
            return Block("some", (body,))
        grammar.settled.append(Settled(first[1], start, source.at))
        variable = Simple(start, assigns=(Assignment(first[1], start, True),))
        return Block("some", (variable, body))

    def _case(self) -> Node:
        source, grammar = self._source, self._grammar
        source.skip_blanks()
        word = grammar.words.read()
        grammar.documents.refuse_newline(word.raw)
        parts: list[Node] = list(word.inner)
        grammar.expect("in")
        grammar.newlines()
        while grammar.reserved() != "esac":
            parts += self._clause()
            grammar.newlines()
        grammar.expect("esac")
        return Block("some", tuple(parts))

    def _clause(self) -> list[Node]:
        """One ``pattern) commands ;;``."""
        source, grammar, parts = self._source, self._grammar, list[Node]()
        source.take("(")
        while True:
            source.skip_blanks()
            parts += grammar.words.read().inner
            source.skip_blanks()
            if not source.take("|"):
                break
        if not source.take(")"):
            raise source.unexpected()
        parts.append(grammar.commands(";;", "esac", empty=True))
        if not any(source.take(end) for end in (";;&", ";;", ";&")):
            grammar.newlines()
            if grammar.reserved() != "esac":
                raise source.unexpected()
        return parts
