"""A word put together from its pieces, and whether its value is known."""

from __future__ import annotations

import re
from typing import Final

from axonkernel.policy.shell.tree import Node, Word

__all__ = ["Building"]

_TILDE: Final = re.compile(r"(?:\A|[=:])~")
#: Stands for quoted letters where only unquoted ones count.
_QUOTED: Final = "\x01"


class Building:
    """A word while it is read."""

    def __init__(self, at: int) -> None:
        self.at = at
        self.file = True
        self.inner: list[Node] = []
        self._text: list[str] = []
        self._lead: list[str] = []
        #: The unquoted letters, with a mark where others stand.
        self._skeleton: list[str] = []
        self._expanded = False
        self._single = True

    def unquoted(self, text: str) -> None:
        self._text.append(text)
        self._skeleton.append(text)
        if not self._expanded:
            self._lead.append(text)

    def quoted(self, text: str) -> None:
        self._text.append(text)
        self._skeleton.append(_QUOTED)
        if not self._expanded:
            self._lead.append(text)

    def expansion(
        self,
        text: str,
        *,
        single: bool,
        inner: Node | None = None,
        more: list[Node] | None = None,
    ) -> None:
        self._text.append(text)
        self._skeleton.append(_QUOTED)
        self._expanded = True
        self._single = self._single and single
        self.inner += [*(() if inner is None else (inner,)), *(more or ())]

    def word(self, raw: str) -> Word:
        text = "".join(self._text)
        skeleton = "".join(self._skeleton)
        lead = "".join(self._lead)
        several = _has_glob(skeleton) or _has_braces(skeleton)
        tilde = _TILDE.search(skeleton) is not None
        if several or tilde:
            # What braces and globs give may start in any way, and so may a home folder.
            lead = ""
        known = not (self._expanded or several or tilde)
        single = self._single and not several
        return Word(text, raw, self.at, known, single, lead, tuple(self.inner), self.file)


def _has_glob(letters: str) -> bool:
    """Whether bash would look for files with these unquoted letters."""
    opening = letters.find("[")
    return "*" in letters or "?" in letters or (opening >= 0 and letters.rfind("]") > opening)


def _has_braces(letters: str) -> bool:
    """Whether there are braces with something to choose from, such as ``{a,b}`` or ``{1..9}``."""
    opening, closing = letters.find("{"), letters.rfind("}")
    if opening < 0 or closing < opening:
        return False
    between = letters[opening:closing]
    return "," in between or ".." in between
