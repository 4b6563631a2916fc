"""The kinds of values a policy field can have.

A kind knows how one value is read, how it is written back and what its JSON Schema is, so
that parsing, ``unparse`` and the published schema cannot drift apart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from axonkernel.policy.faults import Place, bad_character, nearest, spelled, type_name

__all__ = [
    "Kind",
    "boolean",
    "choice",
    "count",
    "either_true_or",
    "listed",
    "mapped",
    "money",
    "read_text",
    "text",
    "unit",
]

Reader = Callable[[Any, Place], Any]


def as_data(value: Any) -> Any:
    """A parsed value as plain data: tuples become lists."""
    return [as_data(item) for item in value] if isinstance(value, tuple) else value


@frozen
class Kind:
    """How values of one kind are read, written and described.

    Arguments:
        read: the parsed value; on bad data it notes a fault and returns None.
        schema: JSON Schema of the value as written.
        write: a parsed value as data that ``read`` takes.
    """

    read: Reader
    schema: Mapping[str, Any]
    write: Callable[[Any], Any] = as_data


def _read_boolean(value: Any, place: Place) -> bool | None:
    if isinstance(value, bool):
        return value
    hint = (
        {0: "false", 1: "true", "false": "false", "true": "true"}.get(value, "true or false")
        if isinstance(value, int | str)
        else "true or false"
    )
    place.fault(f"must be true or false, not {type_name(value)}", value, hint)
    return None


boolean = Kind(_read_boolean, {"type": "boolean"})


def choice(*words: str) -> Kind:
    """One of a few words."""

    def read(value: Any, place: Place) -> str | None:
        if isinstance(value, str) and value in words:
            return value
        close = nearest(value, words) if isinstance(value, str) else None
        every = ", ".join(spelled(word) for word in words)
        place.fault(f"must be one of {every}", value, spelled(close) if close else every)
        return None

    return Kind(read, {"enum": list(words)})


def count(low: int, high: int = 2**31 - 1) -> Kind:
    """A whole number from ``low`` to ``high``."""

    def read(value: Any, place: Place) -> int | None:
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        digits = isinstance(value, str) and value.isascii() and value.isdigit()
        hint = value.lstrip("0") if digits else ""
        place.fault(f"must be a whole number from {low} to {high}", value, hint)
        return None

    return Kind(read, {"type": "integer", "minimum": low, "maximum": high})


def _read_money(value: Any, place: Place) -> float | None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if number and math.isfinite(value) and 0 <= value <= 1e12:
        return float(value)
    place.fault("must be an amount of dollars, zero or more", value, "2.50")
    return None


money = Kind(_read_money, {"type": "number", "minimum": 0, "maximum": 1e12})


def unit(
    convert: Callable[[Any], Any], schema: Mapping[str, Any], write: Callable[[Any], Any] = as_data
) -> Kind:
    """A number with a unit, read by one of :mod:`axonkernel.policy.units`."""
    return Kind(lambda value, place: place.attempt(convert, value), schema, write)


def read_text(value: Any, place: Place) -> str | None:
    """Text that is not empty and has no control characters; else a fault."""
    if not isinstance(value, str):
        hint = spelled(str(value)) if isinstance(value, int | float) else ""
        place.fault(f"must be text, not {type_name(value)}", value, hint)
    elif not value:
        place.fault("must not be empty", value, "leave the entry out")
    elif character := bad_character(value):
        place.fault(f"holds the control character {character}", value, "remove it")
    else:
        return value
    return None


text = Kind(read_text, {"type": "string", "minLength": 1})


def _read_list(item: Kind, value: Any, place: Place) -> tuple[Any, ...] | None:
    if isinstance(value, list | tuple):
        # A bad entry stays as None, so that later checks still name the right index.
        return tuple(item.read(entry, place.at(index)) for index, entry in enumerate(value))
    hint = ""
    if isinstance(value, str | int) and not isinstance(value, bool):
        hint = spelled([value])
    elif value is None or value is False:
        hint = "[]"
    place.fault(f"must be a list, not {type_name(value)}", value, hint)
    return None


def listed(item: Kind) -> Kind:
    """A list of one kind; a tuple will do."""
    return Kind(
        lambda value, place: _read_list(item, value, place),
        {"type": "array", "items": item.schema},
        lambda value: [item.write(entry) for entry in value],
    )


def either_true_or(other: Kind) -> Kind:
    """``true`` for anything at all, or another kind."""

    def read(value: Any, place: Place) -> Any:
        return True if value is True else other.read(value, place)

    return Kind(
        read,
        {"anyOf": [{"const": True}, other.schema]},
        lambda value: True if value is True else other.write(value),
    )


def mapped(key: Kind, item: Kind, key_schema: Mapping[str, Any] | None = None) -> Kind:
    """A table of free names; read into pairs sorted by name.

    ``key`` may rewrite a name; two names that come out the same are a fault.
    """

    def read(value: Any, place: Place) -> tuple[tuple[str, Any], ...] | None:
        if not isinstance(value, Mapping):
            place.fault(f"must be a table, not {type_name(value)}", value)
            return None
        pairs: dict[str, Any] = {}
        for name, entry in value.items():
            spot = place.at(name)
            known = key.read(name, spot)
            if known is not None and known in pairs:
                spot.fault("is written twice, in two spellings", name, "keep one of them")
            pairs[known or str(name)] = item.read(entry, spot)
        return tuple(sorted(pairs.items()))

    schema = {"type": "object", "additionalProperties": item.schema}
    if key_schema:
        schema["propertyNames"] = key_schema
    return Kind(
        read, schema, lambda pairs: {key.write(name): item.write(entry) for name, entry in pairs}
    )
