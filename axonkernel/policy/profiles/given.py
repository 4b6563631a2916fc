"""Words of a command told apart: options with their values, and operands.

One reader for all programs. It follows getopt_long(3), which most programs use or imitate:
values joined or in the next word, bundles of short options, shortened long names, options
after operands, and ``--``. Where a table does not know an option, nothing that follows is
skipped: an unknown letter in a bundle keeps the next word in sight.
"""

from __future__ import annotations

from typing import NamedTuple

from axonkernel.policy.profiles.grammar import COMMAND, OPTIONAL, Grammar, Option
from axonkernel.policy.request import Argv

__all__ = ["Given", "Read", "read_words"]


class Given(NamedTuple):
    """One option as it was given."""

    option: Option
    value: str | None
    words: Argv = ()


class Read:
    """What stands in the words of a command.

    Arguments:
        given: the options, in order.
        operands: the other words; from the first one on when the grammar stops there.
        unknown: the first option that the table does not know, or "".
        shortened: the first long name that was not written out, or "".
    """

    __slots__ = ("given", "operands", "shortened", "unknown")

    def __init__(self) -> None:
        self.given: list[Given] = []
        self.operands: list[str] = []
        self.unknown = ""
        self.shortened = ""


def read_words(grammar: Grammar, words: Argv) -> Read:
    """The options and operands in ``words``, which start after the program or subcommand."""
    read = Read()
    at, count = 0, len(words)
    stop = count if grammar.stop is None else grammar.stop
    if grammar.old_style and words and words[0][:1] not in ("", "-"):
        at = _old_bundle(grammar, words, read)
    options, step = grammar.options, _exact if grammar.exact else _gnu
    while at < count:
        word = words[at]
        if word in ("", "-") or (word[0] not in "-+" and not grammar.exact):
            is_option = word == "-" and "-" in options
        elif word == "--":
            read.operands += words[at + 1 :]
            break
        else:
            is_option = grammar.exact or word[0] == "-" or "+" in options
        taken = step(grammar, words, at, read) if is_option else 0
        if taken:
            at += taken
            continue
        if len(read.operands) >= stop:
            read.operands += words[at:]
            break
        read.operands.append(word)
        at += 1
    return read


def _gnu(grammar: Grammar, words: Argv, at: int, read: Read) -> int:
    """How many words an option takes, itself included."""
    word = words[at]
    option = grammar.options.get(word)
    if option is not None:
        return _whole(option, words, at, read)
    if word[0] == "+":
        read.given.append(Given(grammar.options["+"], word[1:]))
        return 1
    if word.startswith("--"):
        return _long(grammar, words, at, read)
    name, joined, value = word.partition("=")
    if joined and len(name) > 2 and (option := grammar.options.get(name)) is not None:
        read.given.append(Given(option, value))
        return 1
    return _bundle(grammar, words, at, read)


def _whole(option: Option, words: Argv, at: int, read: Read) -> int:
    """An option that is a word of its own, with the words after it that are its values."""
    if option.values == COMMAND:
        end = _command_end(words, at + 1)
        read.given.append(Given(option, None, words[at + 1 : end]))
        return end + 1 - at
    if option.values > 0:
        value = words[at + 1] if at + 1 < len(words) else None
        read.given.append(Given(option, value, words[at + 1 : at + 1 + option.values]))
        return 1 + option.values
    read.given.append(Given(option, None))
    return 1


def _command_end(words: Argv, start: int) -> int:
    """Where the command of ``find -exec`` ends: at ``;``, or at ``+`` after ``{}``."""
    for at in range(start, len(words)):
        if words[at] == ";" or (words[at] == "+" and words[at - 1] == "{}"):
            return at
    return len(words)


def _long(grammar: Grammar, words: Argv, at: int, read: Read) -> int:
    name, joined, value = words[at].partition("=")
    option = grammar.options.get(name)
    if option is None:
        option = grammar.abbreviated(name)
        read.shortened = read.shortened or name
    if option is None or (not grammar.abbreviates and read.shortened):
        read.unknown = read.unknown or name
        return 1
    if joined:
        read.given.append(Given(option, value))
        return 1
    return _whole(option, words, at, read)


def _bundle(grammar: Grammar, words: Argv, at: int, read: Read) -> int:
    word, known = words[at], True
    if word[1:].isdecimal():
        return 1
    for place in range(1, len(word)):
        option = grammar.options.get("-" + word[place])
        if option is None:
            read.unknown = read.unknown or "-" + word[place]
            known = False
        elif option.values == 0:
            read.given.append(Given(option, None))
        elif rest := word[place + 1 :]:
            read.given.append(Given(option, rest))
            return 1
        elif option.values == OPTIONAL:
            read.given.append(Given(option, None))
        elif known:
            return _whole(option, words, at, read)
        else:
            # The letter before may have taken this one as its value, or not.
            read.given.append(Given(option, words[at + 1] if at + 1 < len(words) else None))
    return 1


def _exact(grammar: Grammar, words: Argv, at: int, read: Read) -> int:
    """Options spelled in one way only: find's expression, dd's ``of=FILE``."""
    word = words[at]
    dashed = word[0] == "-"
    for spelling in (word, word[1:]) if word.startswith("--") else (word,):
        option = grammar.options.get(spelling)
        if option is not None and (dashed or option.values == 0):
            return _whole(option, words, at, read)
        name, joined, value = spelling.partition("=")
        option = grammar.options.get(name) if joined else None
        if option is not None and option.values:
            read.given.append(Given(option, value))
            return 1
    if dashed:
        read.unknown = read.unknown or word
    return int(dashed)


def _old_bundle(grammar: Grammar, words: Argv, read: Read) -> int:
    """tar's letters without a dash: their values follow in order, in words of their own."""
    at = 1
    for letter in words[0]:
        option = grammar.options.get("-" + letter)
        if option is None:
            read.unknown = read.unknown or "-" + letter
        elif option.values > 0:
            read.given.append(Given(option, words[at] if at < len(words) else None))
            at += 1
        else:
            read.given.append(Given(option, None))
    return at
