"""What a request would run: every simple command in it, wrappers opened.

Here: lists of words, and lines that need no shell. Lines with shell syntax are not analysed
yet and are denied before they get here.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from axonkernel.policy.match import split_words
from axonkernel.policy.profiles.wrappers import WRAPPERS, Wrapper
from axonkernel.policy.request import Argv, ProcessRequest, ShellRequest

__all__ = ["DEEPEST", "SimpleCommand", "commands_of"]

#: How many wrappers may stand inside each other.
DEEPEST = 200

_ASSIGNMENT = re.compile(r"([^=]+)=", re.DOTALL)


class SimpleCommand(NamedTuple):
    """One program with its words.

    Arguments:
        program: as spelled; "" when what runs cannot be seen.
        words: its arguments.
        unseen: more words will be added that are not known.
        assigns: names of variables set for it.
        resolved: the file it stands for, when known.
        via: the wrapper that runs it, or "".
    """

    program: str
    words: Argv = ()
    unseen: bool = False
    assigns: tuple[str, ...] = ()
    resolved: str | None = None
    via: str = ""


def commands_of(request: ProcessRequest | ShellRequest) -> tuple[SimpleCommand, ...]:
    """The commands a request runs, from the outermost wrapper inward.

    Raises ValueError for a line that cannot be split, and for wrappers nested deeper than
    :data:`DEEPEST`.
    """
    if isinstance(request, ShellRequest):
        argv, resolved = split_words(request.line), None
    else:
        argv, resolved = request.argv, request.resolved
    if not argv:
        return ()
    command: SimpleCommand | None = SimpleCommand(argv[0], argv[1:], resolved=resolved)
    found: list[SimpleCommand] = []
    while command is not None:
        if len(found) == DEEPEST:
            raise ValueError(f"more than {DEEPEST} wrappers")
        found.append(command)
        command = _inside(command)
    return tuple(found)


def _inside(command: SimpleCommand) -> SimpleCommand | None:
    """The command that a wrapper runs, or None."""
    name = command.program[command.program.rfind("/") + 1 :]
    wrapper = WRAPPERS.get(name)
    if wrapper is None and command.resolved is not None:
        name = command.resolved[command.resolved.rfind("/") + 1 :]
        wrapper = WRAPPERS.get(name)
    if wrapper is None:
        return None
    unseen = command.unseen or wrapper.feeds
    at = _skip_options(wrapper, command.words)
    if at is None:
        return SimpleCommand("", unseen=True, via=name)
    rest = command.words[at:]
    assigns: list[str] = []
    while wrapper.assigns and rest and (match := _ASSIGNMENT.match(rest[0])):
        assigns.append(match[1])
        rest = rest[1:]
    rest = rest[wrapper.operands :]
    if rest and wrapper.feeds and _replaced(command.words[:at], rest[0]):
        return SimpleCommand("", unseen=True, via=name)
    if rest:
        return SimpleCommand(rest[0], rest[1:], unseen, tuple(assigns), via=name)
    return SimpleCommand("", unseen=True, via=name) if command.unseen else None


def _replaced(options: Argv, program: str) -> bool:
    """Whether ``xargs`` replaces the program itself by a word it reads."""
    for at, word in enumerate(options):
        mark = ""
        if word.startswith("--replace"):
            mark = word.partition("=")[2] or "{}"
        elif word.startswith("-") and not word.startswith("--") and "I" in word:
            mark = word.partition("I")[2] or "".join(options[at + 1 : at + 2])
        if mark and mark in program:
            return True
    return False


def _skip_options(wrapper: Wrapper, words: Argv) -> int | None:
    """Where the words after a wrapper's options start.

    None when what it runs cannot be seen; the number of words when it runs nothing.
    """
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--":
            return at + 1
        if word == "-" or not word.startswith("-"):
            # ``env -`` is ``env -i``.
            return at + 1 if word == "-" and wrapper.assigns else at
        step = _long(wrapper, word) if word.startswith("--") else _short(wrapper, word)
        if step is None:
            return None
        if step == 0:
            return len(words)
        at += step
    return at


def _long(wrapper: Wrapper, word: str) -> int | None:
    """How many words a long option takes; 0 when nothing runs, None when it is not known.

    Abbreviated options are not known: what they stand for depends on the version.
    """
    name, equals, _ = word.partition("=")
    if name in wrapper.ends:
        return 0
    if name in wrapper.hides or name not in wrapper.options:
        return None
    return 1 if equals else 1 + wrapper.options[name]


def _short(wrapper: Wrapper, word: str) -> int | None:
    """The same for a bundle of short options, such as ``-0n1``."""
    if word[1:].isdigit() and "--adjustment" in wrapper.options:
        return 1  # nice -10
    for at, letter in enumerate(word[1:], start=2):
        name = f"-{letter}"
        if name in wrapper.ends:
            return 0
        if name in wrapper.hides or name not in wrapper.options:
            return None
        if wrapper.options[name]:
            return 1 if at < len(word) else 2
    return 1
