"""Words of a command told apart: options with their values, and operands.

One reader for all programs. It follows getopt_long(3), which most programs use or imitate:
values joined or in the next word, bundles of short options, shortened long names, options
after operands, and ``--``. Where a table does not know an option, nothing that follows is
skipped: an unknown letter in a bundle keeps the next word in sight.
"""

from __future__ import annotations

from typing import NamedTuple

from axonkernel.policy.profiles.grammar import COMMAND, Grammar, Option
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
        given: the options that matter, or all of them, in order.
        operands: the other words; from the first one on when the grammar stops there.
        unknown: the first option that the table does not know, or a shortened one where the
            program may take it for another; or "".
    """

    __slots__ = ("_every", "given", "operands", "unknown")

    def __init__(self, every: bool) -> None:
        self.given: list[Given] = []
        self.operands: list[str] = []
        self.unknown = ""
        self._every = every

    def add(self, option: Option, value: str | None, words: Argv = ()) -> None:
        """Notes an option, if it matters or all are asked for."""
        if option.matters or self._every:
            self.given.append(Given(option, value, words))


def read_words(grammar: Grammar, words: Argv, *, every: bool = False) -> Read:
    """The options and operands in ``words``, which start after the program or subcommand.

    Arguments:
        every: report options too that have no known effect.
    """
    read = Read(every)
    at, count = 0, len(words)
    stop = count if grammar.stop is None else grammar.stop
    if grammar.old_style and words and words[0][:1] not in ("", "-"):
        at = _old_bundle(grammar, words, read)
    options, operands, exact = grammar.options, read.operands, grammar.exact
    step, plus = _exact if exact else _gnu, "+" in options
    while at < count:
        word = words[at]
        option = options.get(word)
        if option is not None:
            if option.values:
                at += _whole(option, words, at, read)
            else:
                at += 1
                if option.matters or every:
                    read.given.append(Given(option, None))
            continue
        if word == "--":
            operands += words[at + 1 :]
            break
        start = word[:1]
        if exact or (start == "-" and len(word) > 1) or (plus and start == "+"):
            taken = step(grammar, words, at, read)
            if taken:
                at += taken
                continue
        if len(operands) >= stop:
            operands += words[at:]
            break
        operands.append(word)
        at += 1
    return read


def _gnu(grammar: Grammar, words: Argv, at: int, read: Read) -> int:
    """How many words an option takes, itself included."""
    word = words[at]
    if word[0] == "+":
        read.add(grammar.options["+"], word[1:])
        return 1
    if word.startswith("--"):
        return _long(grammar, words, at, read)
    name, joined, value = word.partition("=")
    if joined and len(name) > 2 and (option := grammar.options.get(name)) is not None:
        read.add(option, value)
        return 1
    return _bundle(grammar, words, at, read)


def _whole(option: Option, words: Argv, at: int, read: Read) -> int:
    """An option that is a word of its own, with the words after it that are its values."""
    if option.values == COMMAND:
        end = _command_end(words, at + 1)
        read.add(option, None, words[at + 1 : end])
        return end + 1 - at
    if option.values > 0:
        value = words[at + 1] if at + 1 < len(words) else None
        read.add(option, value, words[at + 1 : at + 1 + option.values])
        return 1 + option.values
    read.add(option, None)
    return 1


def _command_end(words: Argv, start: int) -> int:
    """Where the command of ``find -exec`` ends: at ``;``, or at ``+`` after ``{}``."""
    for at in range(start, len(words)):
        if words[at] == ";" or (words[at] == "+" and words[at - 1] == "{}"):
            return at
    return len(words)


def _long(grammar: Grammar, words: Argv, at: int, read: Read) -> int:
    name, joined, value = words[at].partition("=")
    option = grammar.options.get(name) or grammar.family(name)
    if option is None:
        option = grammar.abbreviated(name)
        if option is None or not grammar.abbreviates:
            read.unknown = read.unknown or name
        # Where that is not sure, it must not be what makes a wrapper run nothing.
        if option is None or (option.role == "ends" and not grammar.abbreviates):
            return 1
    if joined:
        read.add(option, value)
        return 1
    return _whole(option, words, at, read)


def _bundle(grammar: Grammar, words: Argv, at: int, read: Read) -> int:
    """Short options in one word, up to one that takes a value."""
    word, options = words[at], grammar.options
    if word[1:].isdecimal():
        return 1
    for pair in grammar.pairs.finditer(word, 1) if grammar.pairs else ():
        value = word[pair.end() :] or (words[at + 1] if at + 1 < len(words) else None)
        read.add(options["-" + pair[0]], value)
    found = grammar.valued.search(word, 1)
    end = len(word) if found is None else found.start()
    known = True
    for letter in dict.fromkeys(word[1:end]):
        option = options.get("-" + letter)
        if option is not None:
            read.add(option, None)
        else:
            read.unknown = read.unknown or "-" + letter
            known = False
    if found is None:
        return 1
    option, rest = options["-" + found[0]], word[end + 1 :]
    if rest or option.values < 0:
        read.add(option, rest or None)
    elif known:
        return _whole(option, words, at, read)
    else:
        # The letter before may have taken this one as its value, or not.
        read.add(option, words[at + 1] if at + 1 < len(words) else None)
    return 1


def _exact(grammar: Grammar, words: Argv, at: int, read: Read) -> int:
    """Options spelled in one way only: find's expression, dd's ``of=FILE``."""
    word = words[at]
    dashed = word[:1] == "-"
    for spelling in (word, word[1:]) if word[:2] == "--" else (word,):
        option = grammar.options.get(spelling)
        if option is not None:
            return _whole(option, words, at, read)
        name, joined, value = spelling.partition("=")
        option = grammar.options.get(name) if joined else None
        if option is not None and option.values:
            read.add(option, value)
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
            read.add(option, words[at] if at < len(words) else None)
            at += 1
        else:
            read.add(option, None)
    return at
