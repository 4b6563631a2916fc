"""Single entries of a policy that are words: argument patterns and environment variables."""

from __future__ import annotations

import re
from typing import Any

from axonkernel.policy.controls import is_control
from axonkernel.policy.faults import Place, spelled
from axonkernel.policy.kinds import Kind, read_text
from axonkernel.policy.match import split_words

__all__ = [
    "control_name",
    "hazard",
    "pattern",
    "strict_pattern",
    "value",
    "variable",
    "variable_name",
]

_WILD = re.compile(r"[*?]")
#: The kernel refuses a longer NAME=VALUE string at exec (MAX_ARG_STRLEN, execve(2)).
_LONGEST_VARIABLE_BYTES = 131_072
#: What is kept of it for the name.
_NAME_ROOM_BYTES = 1024


def _words(text: str, place: Place, value: Any) -> tuple[str, ...] | None:
    try:
        return split_words(text)
    except ValueError:
        return place.fault(
            "does not split into words", value, "close the quotes, or quote special characters"
        )


def _read_strict_pattern(value: Any, place: Place) -> str | None:
    if value == "":
        return ""
    text = read_text(value, place)
    return None if text is None or _words(text, place, value) is None else text


def _worded(least: int, lacking: str, hint: str, description: str) -> Kind:
    """The kind of a text that splits into at least so many words."""

    def read(value: Any, place: Place) -> str | None:
        text = read_text(value, place)
        words = None if text is None else _words(text, place, value)
        if words is not None and len(words) < least:
            return place.fault(lacking, value, hint)
        return None if words is None else text

    return Kind(read, {"type": "string", "minLength": 1, "description": description})


strict_pattern = Kind(
    _read_strict_pattern,
    {
        "type": "string",
        "description": "Matches the arguments word by word; a final * stands for any further "
        'words, "" for none.',
    },
)

pattern = _worded(
    1,
    "has no words, so it would match every call",
    '"*"',
    "Matches when each of its words matches some argument, in any order.",
)

hazard = _worded(
    2,
    "must name a program and one of its hazards",
    '"git -c"',
    "A program and the built-in hazard that is lifted, such as git -c.",
)


def _read_name(value: Any, place: Place) -> str | None:
    """A variable name with no wildcard."""
    text = read_text(value, place)
    if text is None:
        return None
    if "=" in text:
        name, _, rest = text.partition("=")
        hint = f"set = {spelled({name: rest})}" if name else ""
        return place.fault("is not a variable name: it holds =", value, hint)
    if not text.isascii() or " " in text:
        return place.fault("is not a variable name: letters, digits and _ only", value)
    if _WILD.search(text):
        return place.fault("must be one exact name", value, "write each name out")
    return text


def _read_variable(value: Any, place: Place) -> str | None:
    """A variable name, or a prefix and ``*``."""
    if isinstance(value, str) and value.endswith("*"):
        stem = value[:-1]
        if _WILD.search(stem):
            hint = spelled(_WILD.sub("", stem) + "*")
            return place.fault("takes one *, at the end", value, hint)
        return value if not stem or _read_name(stem, place) is not None else None
    name = _read_name(value, place)
    if name is not None and is_control(name):
        return place.fault(
            "makes programs load or run other code, so it is not passed by name alone",
            value,
            f"unsafe_allow = {spelled([name])}",
        )
    return name


variable = Kind(
    _read_variable,
    {
        "type": "string",
        "pattern": r"^[!-)+-<>@-~]*[*]?$",
        "minLength": 1,
        "description": "A variable name, or a prefix and *. A * never covers variables that "
        "loaders and interpreters obey.",
    },
)

_EXACT_NAME_SCHEMA = {"type": "string", "pattern": r"^[!-)+-<>@-~]+$"}

variable_name = Kind(_read_name, _EXACT_NAME_SCHEMA)

control_name = Kind(
    _read_name,
    {
        **_EXACT_NAME_SCHEMA,
        "description": "The exact name of a variable that loaders or interpreters obey.",
    },
)


def _read_value(value: Any, place: Place) -> str | None:
    if not isinstance(value, str):
        hint = spelled(str(value).lower()) if isinstance(value, int | float) else ""
        return place.fault("must be text", value, hint)
    try:
        size = len(value.encode("utf-8", "surrogateescape"))
    except UnicodeEncodeError:
        return place.fault("holds half a character (a lone surrogate)", value)
    if "\0" in value:
        return place.fault("holds a NUL, which ends a variable early", value, "remove it")
    if size > _LONGEST_VARIABLE_BYTES - _NAME_ROOM_BYTES:
        return place.fault(f"is too long: {size} bytes, the system takes 128 KiB with the name")
    return value


value = Kind(_read_value, {"type": "string"})
