"""What a person is shown: everything that will run, and nothing that can dress it up.

A long prompt is a way to push its head out of sight. So long text loses its middle, lines are
counted, and what decides (the program, the folder, how much was asked) comes last, right above
the question.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Final

from axonkernel.escalation.question import Question
from axonkernel.policy.commands import commands_of
from axonkernel.policy.request import (
    ConnectRequest,
    EnvRequest,
    PathRequest,
    ProcessRequest,
    ShellRequest,
    ToolRequest,
)
from axonkernel.policy.visible import visible

__all__ = ["prompt_text"]

#: Of one word, as it is shown: about two lines of a terminal.
_MAX_VALUE_CHARACTERS = 160

#: Of a list of words, lines, arguments or variables: about one screen, its end among them.
_MAX_LINES = 20
_LAST_LINES = 5

#: What is shown without quotes.
_NAME: Final = re.compile(r"[A-Za-z0-9_./+-]{1,160}")


def prompt_text(question: Question, *, waiting: int = 1, timeout_s: float | None = None) -> str:
    """The prompt for a terminal, its last line the choices.

    Arguments:
        question: what is asked.
        waiting: equal calls that the answer settles.
        timeout_s: seconds until the answer is no by itself.
    """
    decision = question.decision
    variables = [f"sets    {_name(name)}={_value(text)}" for name, text in question.env.items()]
    lines = [
        f"{_plain(question.agent)} asks to {_verb(question)}",
        *_some(_details(question)),
        *_some(variables),
        f"rule    {_plain(decision.layer)}: {_plain(decision.rule)}",
    ]
    if waiting > 1:
        lines.append(f"count   {waiting} equal calls wait for this answer")
    if timeout_s is not None:
        lines.append(f"time    {timeout_s:.0f} s, then the answer is no")
    lines += _summary(question)
    choices = "yes | yes run (this exact call, for the rest of the run) | no | no run  [no]: "
    return "\n".join(["", lines[0], *(f"  {line}" for line in lines[1:]), choices])


def _verb(question: Question) -> str:
    request = question.request
    if isinstance(request, ProcessRequest):
        return "start a program that stays running" if request.spawn else "run a program"
    if isinstance(request, ShellRequest):
        return "run a line of shell in bash"
    if isinstance(request, ToolRequest):
        return f"call the tool {_name(request.name)}"
    if isinstance(request, PathRequest):
        return "write to a path" if request.write else "read a path"
    return "connect to a host" if isinstance(request, ConnectRequest) else "see a variable"


def _details(question: Question) -> list[str]:
    """One line for each part of what was asked."""
    request = question.request
    if isinstance(request, ProcessRequest):
        return [f"word {n:<2} {_value(word)}" for n, word in enumerate(request.argv)]
    if isinstance(request, ShellRequest):
        return [f"line    {_value(line)}" for line in request.line.split("\n")]
    if isinstance(request, ToolRequest):
        return [
            f"with    {_name(name)} = {_value(text)}" if name else f"with    {_value(text)}"
            for name, text in _arguments(request)
        ]
    if isinstance(request, PathRequest) and request.spelled not in ("", request.path):
        return [f"asked   {_value(request.spelled)}"]
    return []


def _summary(question: Question) -> list[str]:
    """What decides, at the end, where nothing can push it away."""
    request = question.request
    if isinstance(request, ProcessRequest):
        size = f"size    {len(request.argv)} words, {sum(map(len, request.argv))} characters"
        program = f"program {_value(request.resolved or 'not found')}"
        return [size, program, f"in      {_value(request.cwd)}"]
    if isinstance(request, ShellRequest):
        size = f"size    {request.line.count(chr(10)) + 1} lines, {len(request.line)} characters"
        return [size, _programs(request), f"in      {_value(request.cwd)}"]
    if isinstance(request, ToolRequest):
        given = _arguments(request)
        size = f"size    {len(given)} arguments, {sum(len(text) for _, text in given)} characters"
        return [size, f"tool    {_name(request.name)}"]
    if isinstance(request, ConnectRequest):
        return [f"host    {_value(request.host)}", f"port    {request.ports}/{request.protocol}"]
    if isinstance(request, EnvRequest):
        return [f"name    {_value(request.name)}"]
    return [f"path    {_value(request.path)}"]


def _programs(request: ShellRequest) -> str:
    """The programs that a line runs, each once."""
    try:
        found = {command.program: None for command in commands_of(request) if command.program}
    except ValueError:
        return "runs    what cannot be read"
    return f"runs    {_plain(', '.join(map(_name, found)) or 'no program')}"


def _arguments(request: ToolRequest) -> list[tuple[str, str]]:
    """The arguments by name; nameless where they are not a mapping."""
    try:
        arguments = json.loads(request.args)
    except (ValueError, RecursionError):
        arguments = request.args
    if not isinstance(arguments, dict):
        return [("", _as_text(arguments))]
    return [(name, _as_text(value)) for name, value in arguments.items()]


def _as_text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _some(lines: list[str]) -> list[str]:
    """``lines``, or the first and the last of them and how many are in between."""
    left_out = len(lines) - _MAX_LINES
    if left_out <= 0:
        return lines
    first = _MAX_LINES - _LAST_LINES
    return [*lines[:first], f"... {left_out} more not shown ...", *lines[-_LAST_LINES:]]


def _value(text: str) -> str:
    """Escaped and in quotes, so that blanks at its ends are seen; long text loses its middle."""
    head, left_out, tail = _ends(text)
    # No text can imitate the note about what is left out.
    head, tail = head.replace('"', '\\"'), tail.replace('"', '\\"')
    return f'"{head}" ... {left_out} characters not shown ... "{tail}"' if left_out else f'"{head}"'


def _name(text: str) -> str:
    """A name as it is, or quoted as a value when it could be taken for more than a name."""
    return text if _NAME.fullmatch(text) else _value(text)


def _plain(text: str) -> str:
    """Like :func:`_value` without quotes, for text that is not the asker's."""
    head, left_out, tail = _ends(text)
    return f"{head} ... {left_out} characters not shown ... {tail}" if left_out else head


def _ends(text: str) -> tuple[str, int, str]:
    """Both ends of escaped text and how many characters are between; all of it if it fits."""
    whole = _fitting(text, _MAX_VALUE_CHARACTERS)
    if len(whole) == len(text):
        return "".join(whole), 0, ""
    # An escape is longer than its character: what counts is the room on the screen.
    head = _fitting(text, _MAX_VALUE_CHARACTERS // 2)
    tail = _fitting(reversed(text), _MAX_VALUE_CHARACTERS // 2)
    return "".join(head), len(text) - len(head) - len(tail), "".join(reversed(tail))


def _fitting(characters: Iterable[str], room: int) -> list[str]:
    """The first ``characters``, escaped, that take no more than ``room``."""

    def taken() -> Iterator[str]:
        left = room
        for character in characters:
            shown = visible(character)
            left -= len(shown)
            if left < 0:
                return
            yield shown

    return list(taken())
