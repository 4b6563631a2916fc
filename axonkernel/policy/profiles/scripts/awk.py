"""awk programs: ``system``, pipes and indirect calls run programs, redirections open files."""

from __future__ import annotations

import re

from axonkernel.policy.profiles.scripts import Script

__all__ = ["awk_script"]

_SYSTEM = re.compile(r"(?<![A-Za-z_])system\b\s*(?:\\\r?\n\s*)*\(")
_TOKEN = re.compile(
    r"""
    (?P<blank>[ \t\r]+|\\\r?\n|\#[^\n]*)
    | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
    | (?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
    | (?P<string>"(?:[^"\\\n]|\\.)*")
    | (?P<sign>\|\||\|&|\+\+|--|>>|[<>=!*/%^+-]=|&&|\*\*|.|\n)
    """,
    re.VERBOSE | re.DOTALL,
)
_REGEX = re.compile(r"(?>[^/\\\n\[]|\\.|\[\^?\]?(?>\[:[a-z]+:\]|[^]\\\n/]|\\.)*+\])*+/", re.DOTALL)
#: Words after which a slash starts an expression, not a division.
_OPERATORS = frozenset("print printf return in delete exit do else case".split())
_HEADS = frozenset(("if", "while", "for", "switch"))
_ENDS = frozenset((";", "\n", "}", ""))
_STREAMS = ("/dev/stdout", "/dev/stderr", "/dev/stdin", "-")


def awk_script(text: str) -> Script:
    """What an awk program runs and opens (gawk, mawk, the one true awk)."""
    hazards: list[tuple[str, str]] = []
    if _SYSTEM.search(text):
        # In the raw text: where strings and expressions end must not matter here.
        hazards.append(("system", "runs a program"))
    tokens = _tokens(text)
    if tokens is None:
        hazards.append(("script", "an awk program that cannot be read"))
        return Script(tuple(hazards))
    files: list[tuple[str, str | None, bool]] = []
    for at, token in enumerate(tokens):
        if token in ("|", "|&"):
            hazards.append(("|", "runs the other end of a pipe"))
        elif token == "@":
            hazards.append(("@", "loads code, or calls a function by a computed name"))
        elif token == "ARGV":
            files.append(("ARGV", None, False))
        elif token == "getline":
            files += _read_from(tokens, at)
        elif token in ("print", "printf"):
            files += _written(tokens, at)
    return Script(tuple(dict.fromkeys(hazards)), tuple(files))


def _tokens(text: str) -> list[str] | None:
    """The tokens of a program, or None where awks disagree about them."""
    found: list[str] = []
    heads: list[bool] = []
    at, operand = 0, False
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            return None
        kind, token = match.lastgroup, match[0]
        if token == '"' or token == "\\":
            return None
        if token in ("/", "/=") and found[-1:] == ["getline"]:
            return None
        if token in ("/", "/=") and not operand:
            end = _REGEX.match(text, at + 1)
            if end is None:
                return None  # also where a slash is in brackets: awks differ in what it ends
            at, operand = end.end(), True
            found.append("/re/")
            continue
        at = match.end()
        if kind == "blank":
            continue
        if token == "(":
            heads.append(bool(found) and found[-1] in _HEADS)
        if token == ")":
            operand = not (heads.pop() if heads else False)
        else:
            operand = kind in ("number", "string") or token in ("]", "++", "--")
            operand = operand or (kind == "word" and token not in _OPERATORS)
        found.append(token)
    return found


def _read_from(tokens: list[str], at: int) -> list[tuple[str, str | None, bool]]:
    """The file of ``getline < FILE``."""
    for place in range(at + 1, len(tokens)):
        if tokens[place] == "getline":
            break
        if tokens[place] == "<":
            return _opened("getline", tokens, place + 1, False)
        if tokens[place] in _ENDS or tokens[place] in (")", "&&", "||", "|", "|&"):
            break
    return []


def _written(tokens: list[str], at: int) -> list[tuple[str, str | None, bool]]:
    """The file of ``print > FILE``: a comparison there needs parentheses."""
    depth = 0
    for place in range(at + 1, len(tokens)):
        token = tokens[place]
        depth += (token in ("(", "[")) - (token in (")", "]"))
        if token in _ENDS or token in ("print", "printf") or depth < 0:
            break
        if token in (">", ">>") and depth == 0:
            return _opened(">", tokens, place + 1, True)
    return []


def _opened(
    name: str, tokens: list[str], at: int, write: bool
) -> list[tuple[str, str | None, bool]]:
    """A file named by one string; any other expression is a name that cannot be seen."""
    token = tokens[at] if at < len(tokens) else ""
    after = tokens[at + 1] if at + 1 < len(tokens) else ""
    if not token.startswith('"') or "\\" in token or after not in (*_ENDS, ")"):
        return [(name, None, write)]
    path = token[1:-1]
    return [] if path in _STREAMS else [(name, path, write)]
