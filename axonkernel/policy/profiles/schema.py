"""What a profile may hold. Every fault of a file is found, with its place in it.

A profile is data that people write by hand: a key that is not understood, an option that is
named and not declared, a pattern that does not compile are faults, never skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from axonkernel.errors import Fault
from axonkernel.policy.profiles.grammar import ROLES

__all__ = ["faults", "json_schema"]

_SPEC = re.compile(r"[^\s,=?;]+(?:={0,2}|\?|;)(?:,[^\s,=?;]+(?:={0,2}|\?|;))*")
_NAME = re.compile(r"[A-Za-z0-9_.+-]+")
_KINDS = ("interpreter", "wrapper")
_STYLES = ("gnu", "exact", "bundle", "pairs", "strict")

Check = Callable[[Any, str], Iterator[Fault]]


def faults(data: Any, *, named: bool) -> tuple[Fault, ...]:
    """Everything wrong with a profile.

    Arguments:
        data: the content of the file.
        named: whether ``names`` must be there, as in a file that a user adds.
    """
    if not isinstance(data, dict):
        return (Fault("$", "must be a table"),)
    found = [*_table(data, "$", _TOP)]
    if named and not data.get("names"):
        found.append(Fault("$.names", "is missing", None, 'names = ["mytool"]'))
    return tuple(found)


def _table(data: Any, path: str, keys: Mapping[str, Check]) -> Iterator[Fault]:
    if not isinstance(data, dict):
        yield Fault(path, "must be a table", data)
        return
    for key, value in data.items():
        if key not in keys:
            yield Fault(f"{path}.{key}", "is not a key of a profile", None, ", ".join(keys))
        else:
            yield from keys[key](value, f"{path}.{key}")
    if "instead" in keys:
        yield from _undeclared(data, path)


def _undeclared(data: Mapping[str, Any], path: str) -> Iterator[Fault]:
    """Options that are said to be something and are not in ``options``."""
    text = data.get("options", "")
    declared = set(re.split(r"[\s,]+", text)) if isinstance(text, str) else set()
    declared = {name.rstrip("=?;") for name in declared}
    places = [(key, data.get(key)) for key in ("hazards", "safe", "roles", "means", "keys")]
    when = data.get("when")
    for at, mode in enumerate(when if isinstance(when, list) else ()):
        if isinstance(mode, dict):
            places += ((f"when[{at}].{key}", mode.get(key)) for key in ("roles", "hazards"))
            selectors = mode.get("options", "")
            if isinstance(selectors, str):
                places.append((f"when[{at}].options", dict.fromkeys(selectors.split())))
    for key, table in places:
        for name in table if isinstance(table, dict) else ():
            if name not in declared:
                yield Fault(f"{path}.{key}", f"{name} is not in options", name)


def _text(value: Any, path: str) -> Iterator[Fault]:
    if not isinstance(value, str) or not value.strip():
        yield Fault(path, "must be text", value)


def _any_text(value: Any, path: str) -> Iterator[Fault]:
    if not isinstance(value, str):
        yield Fault(path, "must be text", value)


def _specs(value: Any, path: str) -> Iterator[Fault]:
    if not isinstance(value, str):
        yield Fault(path, "must be text", value)
        return
    seen: set[str] = set()
    for spec in value.split():
        if not _SPEC.fullmatch(spec):
            yield Fault(path, "spells an option as -o=,--output=", spec)
        for name in spec.split(","):
            if name.rstrip("=?;") in seen:
                yield Fault(path, "declares an option twice", spec)
            seen.add(name.rstrip("=?;"))


def _roles_line(value: Any, path: str) -> Iterator[Fault]:
    roles = value.split() if isinstance(value, str) else [None]
    for role in roles:
        if role is None or role.removesuffix("*") not in ROLES:
            yield Fault(path, "must be roles, such as text read*", value, " ".join(ROLES))
    if sum(role is not None and role.endswith("*") for role in roles) > 1:
        yield Fault(path, "has more than one *", value)


def _one_of(names: tuple[str, ...]) -> Check:
    def check(value: Any, path: str) -> Iterator[Fault]:
        if value not in names:
            yield Fault(path, "must be one of " + ", ".join(names), value)

    return check


def _map(check: Check, key: Check | None = None) -> Check:
    def check_map(value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, dict):
            yield Fault(path, "must be a table", value)
            return
        for name, entry in value.items():
            yield from check(entry, f"{path}.{name}")
            if key is not None:
                yield from key(name, path)

    return check_map


def _list(check: Check) -> Check:
    def check_list(value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, list):
            yield Fault(path, "must be a list", value)
            return
        for at, entry in enumerate(value):
            yield from check(entry, f"{path}[{at}]")

    return check_list


def _of(keys: Mapping[str, Check]) -> Check:
    return lambda value, path: _table(value, path, keys)


def _pattern(value: Any, path: str) -> Iterator[Fault]:
    try:
        re.compile(value)
    except (re.error, TypeError) as error:
        yield Fault(path, f"is not a regular expression: {error}", value)


def _flag(value: Any, path: str) -> Iterator[Fault]:
    if not isinstance(value, bool):
        yield Fault(path, "must be true or false", value)


def _count(value: Any, path: str) -> Iterator[Fault]:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        yield Fault(path, "must be a number from 0", value)


def _program(value: Any, path: str) -> Iterator[Fault]:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        yield Fault(path, "must be the bare name of a program", value)


_role = _one_of(tuple(ROLES))
_MODE: Final[Mapping[str, Check]] = {
    "by_option": _flag,
    "hazards": _map(_text),
    "operands": _roles_line,
    "options": _text,
    "reads": _text,
    "roles": _map(_role),
    "writes": _text,
}
_SIBLING: Final[Mapping[str, Check]] = {
    "alone": _flag,
    "beside": _list(_program),
    "controls": _text,
    "env": _map(_any_text),
    "harmless": _text,
    "helpers": _text,
    "inner": _map(_text),
    "links": _text,
    "offline": _text,
    "shell": _one_of(("packs",)),
}
_GRAMMAR: Final[Mapping[str, Check]] = {
    "feeds": _flag,
    "hazard": _text,
    "hazards": _map(_text),
    "instead": _text,
    "keys": _map(_of({"hazards": _map(_text), "roles": _map(_role)})),
    "means": _map(_text),
    "operand_hazards": _map(_text, _pattern),
    "operand_means": _map(_text, _pattern),
    "operands": _roles_line,
    "options": _specs,
    "roles": _map(_role),
    "safe": _map(_pattern),
    "stop": _count,
    "when": _list(_of(_MODE)),
    "writes": _text,
}
_TOP: Final[Mapping[str, Check]] = {
    **_GRAMMAR,
    "beside": _map(_list(_text)),
    "commands": _text,
    "kind": _one_of(_KINDS),
    "names": _list(_program),
    "needs": _list(_text),
    "note": _text,
    "sibling": _of(_SIBLING),
    "style": _one_of(_STYLES),
    "sub": _map(_of({**_GRAMMAR, "as": _text, "names": _text})),
}


def json_schema() -> dict[str, Any]:
    """The shape of a profile file as JSON Schema, for editors."""
    text, texts = {"type": "string"}, {"type": "object", "additionalProperties": {"type": "string"}}
    role_map = {"type": "object", "additionalProperties": {"enum": list(ROLES)}}
    mode = {"options": text, "operands": text, "writes": text, "reads": text,
            "by_option": {"type": "boolean"}, "hazards": texts, "roles": role_map}  # fmt: skip
    inside = {"type": "object", "properties": {"hazards": texts, "roles": role_map}}
    grammar = {
        **dict.fromkeys(("hazard", "instead", "operands", "options", "writes"), text),
        **dict.fromkeys(("hazards", "means", "operand_hazards", "operand_means", "safe"), texts),
        "feeds": {"type": "boolean"},
        "keys": {"type": "object", "additionalProperties": inside},
        "roles": role_map,
        "stop": {"type": "integer", "minimum": 0},
        "when": {"type": "array", "items": _closed(mode)},
    }
    names = {"type": "array", "items": {"type": "string", "pattern": f"^{_NAME.pattern}$"}}
    sibling = {
        **dict.fromkeys(("controls", "harmless", "helpers", "links", "offline"), text),
        "alone": {"type": "boolean"},
        "beside": names,
        "env": texts,
        "inner": texts,
        "shell": {"enum": ["packs"]},
    }
    top = {
        **grammar,
        "beside": {
            "type": "object",
            "additionalProperties": {"type": "array", "items": text},
        },
        "commands": text,
        "kind": {"enum": list(_KINDS)},
        "names": names,
        "needs": {"type": "array", "items": text},
        "note": text,
        "sibling": _closed(sibling),
        "style": {"enum": list(_STYLES)},
        "sub": {
            "type": "object",
            "additionalProperties": _closed({**grammar, "as": text, "names": text}),
        },
    }
    return {**_closed(top), "title": "A program profile of axonkernel"}


def _closed(properties: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "additionalProperties": False}
