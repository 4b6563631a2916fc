"""Where a reader stands in the data, and the faults it has found so far.

Readers never raise for bad data: they note a fault and go on, so that one run shows every
fault of a policy.
"""

from __future__ import annotations

import difflib
import json
import re
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from attrs import evolve, field, frozen

from axonkernel.errors import Fault

__all__ = ["Place", "bad_character", "nearest", "spelled", "step", "type_name"]

T = TypeVar("T")

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*", re.ASCII)
#: What agents and people bring along from other tools.
_SYNONYMS = {
    "filesystem": "fs",
    "files": "fs",
    "network": "net",
    "process": "shell",
    "commands": "shell",
    "environment": "env",
    "mem": "memory",
    "timeout": "wall",
}


@frozen
class Place:
    """A spot in the data, with what is needed to read it.

    Arguments:
        base: absolute folder that relative paths count from.
        home: what ``~`` stands for, or None where it means nothing.
        path: the spot as a JSON path.
        faults: shared by all places of one run.
    """

    base: str = "/"
    home: str | None = None
    path: str = "$"
    faults: list[Fault] = field(factory=list)

    def at(self, key: object) -> Place:
        """The place of one key or index below this one."""
        return evolve(self, path=self.path + step(key))

    def fault(self, message: str, value: Any = None, hint: str = "") -> T | None:
        """Note a fault here. Returns None, so that a reader can end in ``return fault(...)``."""
        self.faults.append(Fault(self.path, message, value, hint))
        return None

    def attempt(self, convert: Callable[[Any], T], value: Any) -> T | None:
        """``convert(value)``, or a fault with the text of its ValueError.

        A text of the form ``what is wrong; what to do`` is split into message and hint.
        """
        try:
            return convert(value)
        except ValueError as error:
            message, _, hint = str(error).partition("; ")
            return self.fault(message, value, hint)


def step(key: object) -> str:
    """One key or index as a step of a JSON path."""
    if isinstance(key, int) and not isinstance(key, bool):
        return f"[{key}]"
    if isinstance(key, str) and _PLAIN_KEY.fullmatch(key):
        return f".{key}"
    return f"[{json.dumps(key if isinstance(key, str) else repr(key))}]"


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word somebody who wrote ``word`` most likely meant, or None.

    ``camelCase`` is tried as ``snake_case`` first, so the habit of another language gives an
    exact answer.
    """
    names = list(known)
    snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", word).lower().replace("-", "_")
    if snake in names:
        return snake
    if _SYNONYMS.get(snake) in names:
        return _SYNONYMS[snake]
    close = difflib.get_close_matches(snake, names, n=1, cutoff=0.6)
    return close[0] if close else None


def spelled(value: Any) -> str:
    """A value as it is written in TOML, for hints that can be pasted."""
    if isinstance(value, dict):
        pairs = ", ".join(f"{_key(key)} = {spelled(item)}" for key, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(spelled(item) for item in value)}]"
    return json.dumps(value, default=str, ensure_ascii=False)


def _key(key: object) -> str:
    text = str(key)
    return text if _PLAIN_KEY.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def type_name(value: object) -> str:
    """The kind of a value in the words of JSON."""
    names: tuple[tuple[type, str], ...] = (
        (type(None), "null"),
        (bool, "true or false"),
        (int, "a number"),
        (float, "a number"),
        (str, "text"),
        (list, "a list"),
        (tuple, "a list"),
        (dict, "a table"),
    )
    for kind, name in names:
        if isinstance(value, kind):
            return name
    return type(value).__name__


def bad_character(text: str) -> str | None:
    """The first character no policy text may hold, by name, or None.

    Control characters and line separators would make one entry look like two, or end a name
    early where C reads it. Undecodable bytes of file names (U+DC80 to U+DCFF) are fine.
    """
    for character in text:
        if character in "\u2028\u2029" or unicodedata.category(character) == "Cc":
            return f"U+{ord(character):04X}"
        if "\ud800" <= character <= "\udfff" and not "\udc80" <= character <= "\udcff":
            return f"U+{ord(character):04X}"
    return None
