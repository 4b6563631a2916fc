"""What a person is shown: everything that will run, and nothing that can dress it up."""

from __future__ import annotations

import json
import unicodedata

from axonkernel.escalation.question import Question
from axonkernel.policy.request import ConnectRequest, ProcessRequest, ShellRequest, ToolRequest

__all__ = ["escape", "prompt_text"]

#: A prompt longer than a screen is a way to push its head out of sight.
_MAX_VALUE_CHARACTERS = 2000

#: Unicode categories that draw nothing, move the cursor, reorder or break lines.
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def escape(text: str) -> str:
    """``text`` with every character that is not plainly visible written out.

    Controls, bidi marks, zero-width and unassigned characters, spaces other than the space,
    and combining marks become backslash escapes; a backslash is doubled, so no text can
    imitate an escape.
    """
    return "".join(_visible(character) for character in text)


def _visible(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if " " <= character <= "~":
        return character
    category = unicodedata.category(character)
    # Zs: blanks that look like the space; M*: marks that alter the character before them.
    if category in _UNSEEN or category == "Zs" or category.startswith("M"):
        return character.encode("unicode_escape", "surrogatepass").decode("ascii")
    return character


def prompt_text(question: Question, *, waiting: int = 1, timeout_s: float | None = None) -> str:
    """The prompt for a terminal, its last line the choices.

    Arguments:
        question: what is asked.
        waiting: equal calls that the answer settles.
        timeout_s: seconds until the answer is no by itself.
    """
    lines = ["", f"{escape(question.agent)} asks to {_verb(question)}", *_details(question)]
    if question.cwd:
        lines.append(f"  in      {_value(question.cwd)}")
    lines += [f"  sets    {escape(name)}={_value(text)}" for name, text in question.env.items()]
    lines.append(f"  rule    {escape(question.decision.layer)}: {escape(question.decision.rule)}")
    if waiting > 1:
        lines.append(f"  count   {waiting} equal calls wait for this answer")
    if timeout_s is not None:
        lines.append(f"  time    {timeout_s:.0f} s, then the answer is no")
    lines.append("yes | yes run (this exact call, for the rest of the run) | no | no run  [no]: ")
    return "\n".join(lines)


def _verb(question: Question) -> str:
    request = question.request
    if isinstance(request, ProcessRequest):
        return "start a program that stays running" if request.spawn else "run a program"
    if isinstance(request, ShellRequest):
        return "run a line of shell in bash"
    if isinstance(request, ToolRequest):
        return f"call the tool {escape(request.name)}"
    return escape(request.action)


def _details(question: Question) -> list[str]:
    request = question.request
    if isinstance(request, ProcessRequest):
        words = [f"  word {n:<2} {_value(word)}" for n, word in enumerate(request.argv)]
        return [*words, f"  program {_value(request.resolved or 'not found')}"]
    if isinstance(request, ShellRequest):
        return [f"  line    {_value(line)}" for line in request.line.split("\n")]
    if isinstance(request, ToolRequest):
        return _arguments(request)
    if isinstance(request, ConnectRequest):
        return [f"  host    {_value(request.host)}", f"  port    {request.port}"]
    return []


def _arguments(request: ToolRequest) -> list[str]:
    try:
        arguments = json.loads(request.args)
    except ValueError:
        arguments = request.args
    if not isinstance(arguments, dict):
        return [f"  with    {_value(str(arguments))}"]
    lines = []
    for name, value in arguments.items():
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        lines.append(f"  with    {escape(name)} = {_value(text)}")
    return lines


def _value(text: str) -> str:
    """Escaped and in quotes, so that blanks at its ends are seen; long text loses its middle."""
    half = _MAX_VALUE_CHARACTERS // 2
    if len(text) <= _MAX_VALUE_CHARACTERS:
        return f'"{escape(text)}"'
    left_out = len(text) - 2 * half
    return f'"{escape(text[:half])}" [{left_out} characters not shown] "{escape(text[-half:])}"'
