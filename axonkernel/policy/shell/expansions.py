"""Expansions that need no parser: ``${...}`` and ``$((...))``, each in a narrow form.

Both can run commands in bash: ``${x@P}``, ``${!x}``, ``${x[i]}``, a subscript inside a
variable that arithmetic reads. Only forms that cannot are let through.
"""

from __future__ import annotations

import re
from string import ascii_letters, digits
from typing import Final

from axonkernel.policy.shell.faults import LineFault, TooComplex
from axonkernel.policy.shell.source import DEEPEST

__all__ = ["IDENTIFIER", "PARAMETER", "arithmetic_end", "arithmetic_names", "braced_end"]

IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
#: What a dollar sign makes an expansion of.
PARAMETER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*|[@*#?$!0-9-]")

#: Text inside ``${x:-text}`` that means the same with and without quotes around it.
_PLAIN = r"(?:[A-Za-z0-9_./:@%+,=^* -]|\$[A-Za-z_][A-Za-z0-9_]*)*"
_BRACED: Final = re.compile(
    rf"""\$\{{(?:
        \#?[A-Za-z_][A-Za-z0-9_]*(?:\[(?:@|\*|[0-9]+)\])?
      | [0-9]+ | [@*\#?$!-]
      | [A-Za-z_][A-Za-z0-9_]*(?::?[-+]|\#\#?|%%?|//?){_PLAIN}
      | [0-9@*](?::?[-+]){_PLAIN}
    )\}}""",
    re.VERBOSE,
)
_ARITHMETIC: Final = frozenset(f"{ascii_letters}{digits}_ \t+-*/%<>=!&|^~?:,()$;")
_NAME: Final = re.compile(r"\$?(?P<name>[A-Za-z_][A-Za-z0-9_]*)|\$[#?$]|0[xX][0-9a-fA-F]+|[0-9]+")


def braced_end(text: str, at: int, end: int) -> int:
    """Where the ``${...}`` that starts at ``at`` ends, at most at ``end``."""
    match = _BRACED.match(text, at, end)
    if match is None:
        raise LineFault("a ${...} expansion of a kind that is not analysed")
    return match.end()


def arithmetic_end(text: str, at: int, end: int) -> int:
    """Where arithmetic ends whose first character is at ``at``: behind its ``))``.

    bash counts parentheses in the same way, and takes what is not followed by ``))`` for
    nested subshells; that is refused here.
    """
    depth = 0
    for place in range(at, end):
        character = text[place]
        if character not in _ARITHMETIC:
            break
        if character == "(":
            depth += 1
            if depth > DEEPEST:
                raise TooComplex(f"nested deeper than {DEEPEST}")
        elif character == ")":
            if depth == 0:
                if place + 1 >= end or text[place + 1] != ")":
                    break
                return place + 2
            depth -= 1
    raise LineFault("arithmetic of a kind that is not analysed")


def arithmetic_names(text: str, at: int, end: int) -> list[tuple[str, int]]:
    """The variables that arithmetic between two places reads or sets.

    What they hold is evaluated in turn, so the caller has to know that it is a number.
    """
    names: list[tuple[str, int]] = []
    dollars = text.count("$", at, end)
    for match in _NAME.finditer(text, at, end):
        if match["name"]:
            names.append((match["name"], match.start()))
        dollars -= match[0].startswith("$")
    if dollars:
        raise LineFault("arithmetic over something that is not known to be a number")
    return names
