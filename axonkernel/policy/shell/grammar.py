"""bash's grammar, as far as it is analysed (bash manual, 3.2).

The reader goes through the line once, from left to right, with the rule bash has: a reserved
word counts only unquoted and where a command may start. What it does not know, it refuses.
"""

from __future__ import annotations

import re
from typing import Final

from axonkernel.policy.shell.conditions import Conditions
from axonkernel.policy.shell.documents import Documents
from axonkernel.policy.shell.expansions import arithmetic_end, arithmetic_names
from axonkernel.policy.shell.faults import LineFault, Unparsable
from axonkernel.policy.shell.loops import Loops
from axonkernel.policy.shell.names import FUNCTION, RESERVED, SHADOWED
from axonkernel.policy.shell.numbers import Settled
from axonkernel.policy.shell.simple import SimpleCommands
from axonkernel.policy.shell.source import Source
from axonkernel.policy.shell.tree import Block, Chain, Definition, Node, Simple
from axonkernel.policy.shell.words import Words

__all__ = ["Grammar"]

_RESERVED: Final = re.compile(rf"(?:{'|'.join(map(re.escape, RESERVED))})(?=[ \t\n|&;()<>]|\Z)")
_PORTABLE: Final = re.compile(r"-p[ \t]+")


class Grammar:
    """Reads one line.

    Attributes:
        numbers: variables that arithmetic reads or sets, with their places.
        settled: variables that hold a number between two places.
        timed: the place of ``time`` for the command behind it; to others it is a command.
    """

    def __init__(self, text: str) -> None:
        self.source = Source(text)
        self.numbers: list[tuple[str, int]] = []
        self.settled: list[Settled] = []
        self.timed: dict[int, int] = {}
        self._substitutions = 0
        self.words = Words(self.source, self._nested, self.numbers)
        self.documents = Documents(self.source, self.words)
        self._simple = SimpleCommands(self.source, self.words, self.documents)
        self._conditions = Conditions(self.source, self.words, self.numbers)
        self._loops = Loops(self)

    def program(self) -> Node:
        """The whole line. Raises LineFault for anything that is not understood."""
        node = self.commands(empty=True)
        if self.source.at < self.source.end:
            raise self.source.unexpected()
        self.documents.require_none()
        return Block("all", (node, Block("adrift", tuple(self.documents.inner))))

    def _nested(self, closing: str) -> Node:
        """The commands of a substitution, up to its closing parenthesis."""
        source, start = self.source, self.source.at
        source.deeper()
        self._substitutions += 1
        outer = self.documents.set_aside()
        node = self.commands(*filter(None, (closing,)), empty=True)
        if not source.take(closing) or (not closing and source.at < source.end):
            raise source.unexpected()
        self.documents.take_back(outer, source.text[start : source.at])
        self._substitutions -= 1
        source.shallower()
        return node

    def newlines(self) -> None:
        """Step over blanks, newlines, comments and here-documents."""
        source = self.source
        while True:
            source.skip_blanks()
            if source.peek() == "#":
                self._comment()
            elif source.peek() == "\n":
                source.at += 1
                self.documents.read()
            else:
                return

    def _comment(self) -> None:
        if self._substitutions:
            # Older versions of bash look for the closing parenthesis inside comments.
            raise LineFault("a comment inside a substitution")
        source = self.source
        stop = source.text.find("\n", source.at, source.end)
        source.at = source.end if stop < 0 else stop

    def reserved(self) -> str:
        """The reserved word at the position, or ""."""
        match = _RESERVED.match(self.source.text, self.source.at, self.source.end)
        return match[0] if match else ""

    def expect(self, word: str) -> None:
        """Step over a reserved word or operator that has to stand here."""
        self.newlines()
        if not (self.reserved() == word or (word == ")" and self.source.peek() == ")")):
            raise self.source.unexpected()
        self.source.at += len(word)

    def commands(self, *stops: str, empty: bool = False) -> Node:
        """Commands up to one of some reserved words or closing tokens, which stay unread."""
        source, parts = self.source, list[Node]()
        self.newlines()
        while source.at < source.end and not self._stops(stops):
            node = self._and_or()
            source.skip_blanks()
            if source.peek() == "#":
                self._comment()
            if source.peek() == "&":
                source.at += 1
                node = Block("apart", (node,))
            elif source.peek() == ";" and source.peek(1) not in (";", "&"):
                source.at += 1
            elif source.peek() not in ("\n", "") and not self._stops(stops):
                raise source.unexpected()
            parts.append(node)
            self.newlines()
        if not parts and not empty:
            raise source.unexpected()
        return parts[0] if len(parts) == 1 else Block("all", tuple(parts))

    def _stops(self, stops: tuple[str, ...]) -> bool:
        reserved = self.reserved()
        for stop in stops:
            if stop == ")" and self.source.peek() == ")":
                return True
            if stop == ";;" and (self.source.starts(";;") or self.source.starts(";&")):
                return True
            if reserved == stop:
                return True
        return False

    def _and_or(self) -> Node:
        source, first, rest = self.source, self._pipeline(), list[tuple[str, Node]]()
        while True:
            source.skip_blanks()
            operator = next((each for each in ("&&", "||") if source.take(each)), None)
            if operator is None:
                return Chain(first, tuple(rest)) if rest else first
            self.newlines()
            rest.append((operator, self._pipeline()))

    def _pipeline(self) -> Node:
        source, timed = self.source, -1
        while (prefix := self.reserved()) in ("!", "time"):
            timed = source.at if prefix == "time" and timed < 0 else timed
            source.at += len(prefix)
            source.skip_blanks()
            if prefix == "time" and (option := _PORTABLE.match(source.text, source.at, source.end)):
                source.at = option.end()
        if timed >= 0:
            self.timed[source.at] = timed
        parts = [self.command()]
        while True:
            source.skip_blanks()
            if source.starts("||") or not (source.take("|&") or source.take("|")):
                break
            self.newlines()
            parts.append(self.command())
        if len(parts) == 1:
            return parts[0]
        return Block("all", tuple(Block("apart", (part,)) for part in parts))

    def command(self) -> Node:
        """One command, simple or compound, with its redirections."""
        source = self.source
        reserved, start = self.reserved(), source.at
        if not reserved and source.peek() != "(":
            simple = self._simple.read()
            if source.peek() == "(":
                return self._function(simple)
            return simple
        source.deeper()
        node = self._compound(reserved)
        opened = self._simple.redirections(start)
        source.shallower()
        # Where a redirection fails, nothing runs.
        return node if opened is None else Block("some", (opened, node))

    def _compound(self, reserved: str) -> Node:
        source, start = self.source, self.source.at
        if source.take("(("):
            source.at = arithmetic_end(source.text, start + 2, source.end)
            self.numbers += arithmetic_names(source.text, start + 2, source.at - 2)
            return Simple(start)
        if source.take("("):
            body = self.commands(")")
            self.expect(")")
            return Block("apart", (body,))
        source.at += len(reserved)
        if reserved == "{":
            body = self.commands("}")
            self.expect("}")
            return body
        if reserved == "[[":
            return self._conditions.read(start)
        if reserved == "function":
            return self._function(self._simple.named())
        if reserved == "case" and self._substitutions:
            raise LineFault("case inside a substitution")
        return self._loops.read(reserved)

    def _function(self, name: Simple) -> Node:
        """A function, from behind its name."""
        source = self.source
        text = name.words[0].raw if len(name.words) == 1 else ""
        if name.assigns or name.redirects or not FUNCTION.fullmatch(text):
            raise source.unexpected()
        if text in SHADOWED:
            raise LineFault(f"a function named {text}, which means something else to bash")
        if source.take("("):
            source.skip_blanks()
            if not source.take(")"):
                raise source.unexpected()
        self.newlines()
        if self.reserved() != "{" and (source.peek() != "(" or source.starts("((")):
            raise Unparsable("the body of a function is { ...; } or ( ... )")
        return Definition(text, name.at, self.command())
