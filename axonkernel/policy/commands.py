"""What a request would run: every simple command in it, wrappers opened.

A line of shell text is read by :mod:`axonkernel.policy.shell`; one that is nothing but plain
words, which bash would take as they are, is split here.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from axonkernel.policy.match import needs_shell, split_words
from axonkernel.policy.profiles.wrappers import WRAPPERS, Wrapper
from axonkernel.policy.request import Argv, ProcessRequest, ShellRequest
from axonkernel.policy.shell.faults import TooComplex
from axonkernel.policy.shell.line import Call, Redirect, read_line
from axonkernel.policy.shell.names import BUILTINS

__all__ = ["DEEPEST", "Redirect", "SimpleCommand", "commands_of"]

#: How many wrappers may stand inside each other.
DEEPEST = 200

_ASSIGNMENT = re.compile(r"([^=]+)=", re.DOTALL)
#: Options of wrappers that change the folder the command runs in: env -C, sudo -D.
_MOVES = re.compile(r"-[A-Za-z]*[CDR]|--chdir|--chroot")


class SimpleCommand(NamedTuple):
    """One program with its words.

    Arguments:
        program: as spelled; "" when what runs cannot be seen, or nothing runs.
        words: its arguments.
        unseen: more words will be added that are not known, or some of ``words`` are not.
        assigns: names of variables set for it.
        resolved: the file it stands for, when known.
        via: the wrapper that runs it, or "".
        dynamic: places in ``words`` whose text is not known. There it is as the line spells
            it (``$X``, ``*.py``) and stands for one word, for several or for none.
        redirects: files that the shell opens for it.
        cwd: the absolute folder it runs in; None when that is not known.
    """

    program: str
    words: Argv = ()
    unseen: bool = False
    assigns: tuple[str, ...] = ()
    resolved: str | None = None
    via: str = ""
    dynamic: tuple[int, ...] = ()
    redirects: tuple[Redirect, ...] = ()
    cwd: str | None = "/"

    @property
    def runs(self) -> bool:
        """Whether a program starts at all: ``A=1`` and ``> file`` alone start none."""
        return bool(self.program) or self.unseen


def commands_of(request: ProcessRequest | ShellRequest) -> tuple[SimpleCommand, ...]:
    """The commands a request runs, in the order of its text, a wrapper before what it runs.

    Raises:
        TooComplex: wrappers nested deeper than :data:`DEEPEST`, or a line beyond the caps.
        LineFault: a line of which it cannot be told what it runs.
    """
    if isinstance(request, ProcessRequest):
        if not (argv := request.argv):
            return ()
        return _opened(
            SimpleCommand(argv[0], argv[1:], resolved=request.resolved, cwd=request.cwd)
        )
    if (words := _plain(request.line)) is not None:
        return _opened(SimpleCommand(words[0], words[1:], cwd=request.cwd)) if words else ()
    found: list[SimpleCommand] = []
    for call in read_line(request.line, request.cwd):
        found += _of_call(call)
    return tuple(found)


def _plain(line: str) -> Argv | None:
    """The words of a line that runs the same program with and without a shell."""
    # bash expands a tilde behind "=" and ":" too.
    if needs_shell(line) or "~" in line:
        return None
    words = split_words(line)
    return None if words and words[0] in BUILTINS else words


def _of_call(call: Call) -> tuple[SimpleCommand, ...]:
    """A command of a line, what it wraps, and what it hides."""
    found: tuple[SimpleCommand, ...] = ()
    if call.program or call.assigns or call.redirects:
        command = SimpleCommand(
            call.program,
            call.words,
            bool(call.dynamic),
            call.assigns,
            via=call.via,
            dynamic=call.dynamic,
            redirects=call.redirects,
            cwd=call.cwd,
        )
        found = _opened(command)
    if call.hidden:
        found += (SimpleCommand("", unseen=True, via=call.hidden, cwd=call.cwd),)
    return found


def _opened(first: SimpleCommand) -> tuple[SimpleCommand, ...]:
    """A command and everything it wraps, from the outermost wrapper inward."""
    command: SimpleCommand | None = first
    found: list[SimpleCommand] = []
    while command is not None:
        if len(found) == DEEPEST:
            raise TooComplex(f"more than {DEEPEST} wrappers")
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
    hidden = SimpleCommand("", unseen=True, via=name, cwd=command.cwd)
    at = _skip_options(wrapper, command.words)
    if at is None:
        return hidden
    options, rest = command.words[:at], command.words[at:]
    assigns: list[str] = []
    while wrapper.assigns and rest and (match := _ASSIGNMENT.match(rest[0])):
        assigns.append(match[1])
        rest = rest[1:]
    rest = rest[wrapper.operands :]
    start = len(command.words) - len(rest)
    if any(place <= start for place in command.dynamic):
        # A word that is not known may be an option, or several words.
        return hidden
    if rest and wrapper.feeds and _replaced(options, rest[0]):
        return hidden
    if not rest:
        return hidden if command.unseen else None
    cwd = None if any(map(_MOVES.match, options)) else command.cwd
    dynamic = tuple(place - start - 1 for place in command.dynamic)
    return SimpleCommand(
        rest[0], rest[1:], unseen, tuple(assigns), via=name, dynamic=dynamic, cwd=cwd
    )


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
