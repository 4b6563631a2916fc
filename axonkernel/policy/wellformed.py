"""Requests that are not judged at all: malformed ones, and those beyond the caps."""

from __future__ import annotations

import json
import re
from typing import Final, NoReturn

from axonkernel.policy.request import Decision, ProcessRequest, ShellRequest, ToolRequest

__all__ = [
    "DEEPEST",
    "LONGEST_PATH",
    "MOST_TEXT",
    "argv_fault",
    "depth_of",
    "malformed",
    "malformed_name",
    "overlong",
    "surroundings_fault",
    "too_complex",
    "tool_fault",
    "unencodable",
]

#: Caps on what is analysed; beyond them a request is denied, in bounded time.
MOST_WORDS = 10_000
MOST_TEXT = 1 << 20
DEEPEST = 200
#: Longer than any path a system call takes (PATH_MAX is 4096).
LONGEST_PATH = 16_384

#: Longer than any word or variable a program can be started with (Linux, MAX_ARG_STRLEN).
_LONGEST_WORD = 131_071

#: Halves of characters, which no bytes stand for. U+DC80 to U+DCFF stand for single bytes that
#: are no text (PEP 383), as names of files can have.
_UNENCODABLE: Final = re.compile("[\ud800-\udc7f\udd00-\udfff]")

#: JSON text that can hold what only looks like JSON data is read once more.
_SUSPECT: Final = re.compile(r"\A(?!\{)|NaN|Infinity|\\u[dD]")


def unencodable(text: str) -> bool:
    """Whether no bytes stand for ``text``, so that no system call can take it."""
    return not text.isascii() and _UNENCODABLE.search(text) is not None


def malformed_name(name: str) -> bool:
    """Whether no environment can hold a variable of that name."""
    return not name or "=" in name or "\0" in name or unencodable(name)


def overlong(word: str) -> bool:
    """Whether no program can be started with ``word`` among its arguments or variables."""
    if len(word) <= _LONGEST_WORD // 4:
        return False
    return len(word.encode("utf-8", "surrogateescape")) > _LONGEST_WORD


def malformed(subject: str, detail: str) -> Decision:
    """The denial of a request that is not well formed."""
    return Decision("deny", "request.malformed", "builtin", "builtin", subject, detail)


def too_complex(detail: str) -> Decision:
    """The denial of a request that is too large to analyse."""
    return Decision("deny", "request.too_complex", "builtin:caps", "builtin", "", detail)


def surroundings_fault(request: ProcessRequest | ShellRequest) -> Decision | None:
    """The denial of a call whose folder or variables are too large to analyse, or None."""
    if len(request.cwd) > LONGEST_PATH:
        return too_complex(f"a folder of {len(request.cwd)} characters")
    if request.env and sum(map(len, request.env)) > MOST_TEXT:
        return too_complex("names of variables")
    return None


def argv_fault(request: ProcessRequest) -> Decision | None:
    """The denial of a list of words no program can be started with, or None."""
    argv = request.argv
    if not argv or not argv[0]:
        return malformed("", "no program is named")
    if len(argv) > MOST_WORDS or len(request.env) > MOST_WORDS:
        return too_complex(f"{len(argv)} words")
    text = "".join(argv)
    if len(text) > MOST_TEXT or len(argv[0]) > LONGEST_PATH:
        return too_complex(f"{len(text)} characters")
    if fault := surroundings_fault(request):
        return fault
    if request.env and any(map(malformed_name, request.env)):
        return malformed(argv[0], "a name that no environment can hold")
    text = f"{text}{request.cwd}{request.resolved}"
    if "\0" in text or unencodable(text) or not request.cwd.startswith("/"):
        return malformed(argv[0], "a NUL, half a character, or a folder that is not absolute")
    if len(text) > _LONGEST_WORD // 4 and any(map(overlong, argv)):
        return too_complex("a word longer than any program can be started with")
    return None


def tool_fault(request: ToolRequest) -> Decision | None:
    """The denial of a tool call that is no JSON data, or has a NUL or half a character, or is
    too large or deep to analyse, or whose name or subjects are none; or None."""
    args = request.args
    if len(args) > MOST_TEXT or len(request.name) > LONGEST_PATH:
        return too_complex(f"{len(args)} characters of arguments")
    if depth_of(args) > DEEPEST:
        return too_complex(f"arguments nested deeper than {DEEPEST}")
    # JSON spells NUL as an escape; an escaped backslash in front is not one.
    if "\0" in request.name or "\0" in args or "\\u0000" in args.replace("\\\\", ""):
        return malformed(request.name.replace("\0", ""), "a NUL byte")
    if unencodable(request.name) or unencodable(args):
        return malformed(request.name, "half a character")
    if _SUSPECT.search(args) and (fault := _data_fault(args)):
        return malformed(request.name, fault)
    if "*" in request.name or ".." in f".{request.name}.":
        return malformed(request.name, "no name of a tool")
    for subject in request.subjects:
        if subject.kind != "argv" and not isinstance(subject.value, str):
            return malformed(request.name, f"a subject of the kind {subject.kind} is text")
    return None


def _data_fault(args: str) -> str:
    """What keeps JSON text from being the arguments of a call; "" when nothing does."""
    try:
        data = json.loads(args, parse_constant=_no_number)
    except (ValueError, RecursionError) as error:
        return f"no JSON data: {error}"
    if not isinstance(data, dict):
        return "arguments are given by name"
    return "half a character" if unencodable(json.dumps(data, ensure_ascii=False)) else ""


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number in JSON")


def depth_of(text: str) -> int:
    """How deep JSON text nests; or how many brackets there are, when that is no more than
    :data:`DEEPEST`."""
    if (brackets := text.count("[") + text.count("{")) <= DEEPEST:
        return brackets
    deepest = depth = 0
    quoted = escaped = False
    for character in text:
        if escaped:
            escaped = False
        elif quoted and character == "\\":
            escaped = True
        elif character == '"':
            quoted = not quoted
        elif not quoted and character in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif not quoted and character in "]}":
            depth -= 1
    return deepest
