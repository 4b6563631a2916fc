"""Keeps a record small, whatever was asked: the log must not be a way to fill the disk.

Long text keeps its head, its length and the SHA-256 of the whole, so that a copy that turns up
elsewhere can be recognised.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from axonkernel.audit.digest import sha256
from axonkernel.typed import Any, NamedTuple

__all__ = ["LONGEST_TEXT", "MOST_BYTES", "abridged", "bounded", "cut"]

#: Characters of one string; what is written in as many characters is kept as it is.
LONGEST_TEXT = 4096

#: One line of the log without its hashes.
MOST_BYTES = 64 * 1024

#: Numbers beyond this are treated as text.
_LONGEST_NUMBER_BITS = 256


class _Limits(NamedTuple):
    """How much is kept: characters of a string, items of a collection, levels below the record."""

    text: int
    items: int
    levels: int


#: The next is tried only where a record is too large under the one before. A character takes at
#: most 12 bytes in JSON, so that the last fits always: 24 fields, each with its name.
_LIMITS = (_Limits(LONGEST_TEXT, 256, 16), _Limits(256, 64, 6), _Limits(64, 24, 0))


def bounded(entry: Mapping[str, Any]) -> str:
    """``entry`` as JSON text, ASCII, of at most :data:`MOST_BYTES`.

    Raises TypeError or ValueError for what is no JSON data.
    """
    text = _written(entry)
    if len(text) <= LONGEST_TEXT:
        return text  # the usual case: nothing in it can be longer than the whole
    return _written(abridged(entry, MOST_BYTES))


def abridged(data: Mapping[str, Any], most_bytes: int) -> dict[str, Any]:
    """``data`` cut so that its JSON text has at most ``most_bytes``, no less than
    :data:`MOST_BYTES`."""
    kept: dict[str, Any] = {}
    for limits in _LIMITS:
        kept = _fields(data, limits, limits.levels)
        if len(_written(kept)) <= most_bytes:
            break
    return kept


def cut(text: str, most: int = LONGEST_TEXT) -> str:
    """``text``, or its head with a note of what the whole was.

    Both together have ``most`` characters, so that what was cut is not cut again (half of
    ``most`` and the note where that is too few).
    """
    if len(text) <= most:
        return text
    digest = sha256(text.encode("utf-8", "surrogatepass"))
    note = f"... [cut: {len(text)} characters, sha256 {digest}]"
    return text[: max(most - len(note), most // 2)] + note


def _kept(value: Any, limits: _Limits, levels: int) -> Any:
    if isinstance(value, str):
        return cut(value, limits.text)
    if isinstance(value, int) and value.bit_length() > _LONGEST_NUMBER_BITS:
        return cut(str(value), limits.text)
    if not isinstance(value, (dict, list)):
        return value
    if levels == 0:
        return cut(_written(value), limits.text)
    if isinstance(value, dict):
        return _fields(value, limits, levels - 1)
    items = [_kept(each, limits, levels - 1) for each in value[: limits.items]]
    more = len(value) - len(items)
    return [*items, f"... [cut: {more} more]"] if more else items


def _fields(value: Mapping[str, Any], limits: _Limits, levels: int) -> dict[str, Any]:
    names = list(value)[: limits.items]
    fields = {cut(name, limits.text): _kept(value[name], limits, levels) for name in names}
    more = len(value) - len(names)
    return {**fields, "...": f"[cut: {more} more]"} if more else fields


def _written(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), allow_nan=False)
