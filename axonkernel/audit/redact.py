"""Keeps secrets out of the log: by the name they go under, and by their value."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping

from axonkernel.typed import Any

__all__ = ["REDACTED", "Redactor", "secret_values"]

REDACTED = "[redacted]"

#: Shorter values would blank ordinary words.
_MIN_SECRET_CHARACTERS = 6

_SECRET_NAME = re.compile(
    r"passw(?:or)?d|passphrase|secret|token|api_?-?key|apikey|private_?-?key|access_?-?key"
    r"|credential|authorization|cookie|(?:^|[_-])auth$|(?:^|[_-])pw$",
    re.IGNORECASE,
)
_ASSIGNMENT = re.compile(r"\A(-{0,2}[A-Za-z][A-Za-z0-9_.-]*)([=:]\s*)(.+)\Z", re.DOTALL)
#: The scheme is bounded: without that, a long word takes time by its length squared.
_USER_INFO = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]{0,30}://[^/\s:@]*:)[^/\s@]+@", re.IGNORECASE)

#: Data nested deeper is not looked into, and so not written down.
_DEEPEST = 64


class Redactor:
    """Replaces secrets in data that is about to be written down.

    Arguments:
        values: secrets known by value, replaced wherever they appear.
    """

    def __init__(self, *values: str) -> None:
        self._spellings: frozenset[str] = frozenset()
        self._by_value: re.Pattern[str] | None = None
        self.conceal(*values)

    def conceal(self, *values: str) -> None:
        """Add secrets known by value; those under 6 characters are not looked for."""
        spellings = set(self._spellings)
        for value in values:
            if len(value) >= _MIN_SECRET_CHARACTERS:
                # Text that is itself JSON (a tool's arguments) holds the escaped spelling.
                spellings |= {value, json.dumps(value)[1:-1]}
        if spellings != self._spellings:
            longest_first = sorted(spellings, key=len, reverse=True)
            self._spellings = frozenset(spellings)
            self._by_value = re.compile("|".join(map(re.escape, longest_first)))

    def __call__(self, data: Any) -> Any:
        """A copy of JSON-like ``data`` without secrets, and as JSON can hold it."""
        return self._copy(data, _DEEPEST)

    def _copy(self, data: Any, levels: int) -> Any:
        if isinstance(data, str):
            return self._text(data)
        if isinstance(data, (Mapping, list, tuple)):
            if levels == 0:
                return f"[nested deeper than {_DEEPEST} levels]"
            if not isinstance(data, Mapping):
                return self._words(data, levels - 1)
            return {
                self._text(str(name)): self._field(str(name), data[name], levels - 1)
                for name in data
            }
        if isinstance(data, float) and not math.isfinite(data):
            return str(data)
        return data

    def _field(self, name: str, value: Any, levels: int) -> Any:
        if isinstance(value, (str, bytes, list, tuple)) and value and _SECRET_NAME.search(name):
            return REDACTED
        return self._copy(value, levels)

    def _words(self, words: list[Any] | tuple[Any, ...], levels: int) -> list[Any]:
        """Words as of a command: ``--token X``, ``--token=X`` and ``TOKEN=X`` lose X."""
        kept: list[Any] = []
        hide_next = False
        for word in words:
            if hide_next and isinstance(word, str):
                kept.append(REDACTED)
                hide_next = False
                continue
            kept.append(self._copy(word, levels))
            hide_next = (
                isinstance(word, str)
                and word.startswith("-")
                and "=" not in word
                and _SECRET_NAME.search(word) is not None
            )
        return kept

    def _text(self, text: str) -> str:
        if self._by_value is not None:
            text = self._by_value.sub(REDACTED, text)
        if "://" in text:
            text = _USER_INFO.sub(rf"\g<scheme>{REDACTED}@", text)
        found = _ASSIGNMENT.match(text) if "=" in text or ":" in text else None
        if found and _SECRET_NAME.search(found[1]):
            return f"{found[1]}{found[2]}{REDACTED}"
        return text


def secret_values(variables: Mapping[str, str]) -> tuple[str, ...]:
    """The values of those variables whose names say that they hold a secret."""
    return tuple(value for name, value in variables.items() if _SECRET_NAME.search(name))
