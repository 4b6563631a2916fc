"""What a line is made of, once read."""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = [
    "Assignment",
    "Block",
    "BlockKind",
    "Chain",
    "Definition",
    "Node",
    "Redirection",
    "Simple",
    "Word",
]


class Word(NamedTuple):
    """One word.

    Arguments:
        text: what the program gets; expansions, which are not known, as they were spelled.
        raw: the word as spelled.
        at: where it starts in the line.
        known: ``text`` is exactly what the program gets.
        single: it is one word whatever its expansions hold.
        lead: the characters of ``text`` that are known for certain, from its start.
        inner: the commands of substitutions in it.
        file: it may name a file of the user's choice; False for a process substitution.
    """

    text: str
    raw: str
    at: int
    known: bool = True
    single: bool = True
    lead: str = ""
    inner: tuple[Node, ...] = ()
    file: bool = True


class Assignment(NamedTuple):
    """A variable that is set. ``numeric`` when its value can be nothing but a number."""

    name: str
    at: int
    numeric: bool = False


class Redirection(NamedTuple):
    """A file opened for a command."""

    target: Word
    write: bool


class Simple(NamedTuple):
    """A simple command: assignments, words, redirections; each may be missing.

    ``inner`` has the commands of substitutions in any of them.
    """

    at: int
    words: tuple[Word, ...] = ()
    assigns: tuple[Assignment, ...] = ()
    redirects: tuple[Redirection, ...] = ()
    inner: tuple[Node, ...] = ()


#: ``all``: one after the other. ``apart``: in a subshell. ``some``: branches and loops, of which
#: any part may run any number of times. ``adrift``: in a working directory that is not known
#: when the line changes it.
BlockKind = Literal["all", "apart", "some", "adrift"]


class Block(NamedTuple):
    """Commands that belong together."""

    kind: BlockKind
    parts: tuple[Node, ...]


class Chain(NamedTuple):
    """Commands joined by ``&&`` and ``||``, each part with the operator before it."""

    first: Node
    rest: tuple[tuple[str, Node], ...]


class Definition(NamedTuple):
    """A function."""

    name: str
    at: int
    body: Node


Node = Simple | Block | Chain | Definition
