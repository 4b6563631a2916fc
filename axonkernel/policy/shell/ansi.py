"""``$'...'``: quoting with escapes (bash manual, 3.1.2.4)."""

from __future__ import annotations

import re
from typing import Final

from axonkernel.policy.shell.faults import LineFault

__all__ = ["ansi_text"]

_ESCAPE: Final = re.compile(r"\\(?:([0-7]{1,3})|x([0-9A-Fa-f]{1,2})|(.))", re.DOTALL)
_LETTERS: Final = {
    "a": "\a", "b": "\b", "e": "\x1b", "E": "\x1b", "f": "\f", "n": "\n", "r": "\r",
    "t": "\t", "v": "\v", "\\": "\\", "'": "'", '"': '"', "?": "?",
}  # fmt: skip


def ansi_text(body: str) -> str:
    """What the text between the quotes stands for.

    Raises LineFault for escapes that depend on the locale, and for NUL, which ends the word
    early.
    """
    return _ESCAPE.sub(_escaped, body)


def _escaped(match: re.Match[str]) -> str:
    octal, hexadecimal, letter = match.groups()
    if letter is not None:
        if letter not in _LETTERS:
            raise LineFault(f"the escape \\{letter} in $'...' is not analysed")
        return _LETTERS[letter]
    number = int(octal, 8) if octal else int(hexadecimal, 16)
    if not 0 < number < 0x80:
        raise LineFault("$'...' with a character outside ASCII, or NUL")
    return chr(number)
