"""The ``tools`` map: dotted names and nested tables become levels.

In a table under a tool's name, ``allow``, ``deny`` and ``escalate`` are lists of patterns on
its subject, never names of tools. A tool whose last word is one of the three is written with
a dot: ``"review.deny" = true``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from axonkernel.policy.faults import Place, nearest, spelled, type_name
from axonkernel.policy.fields import Block, Field
from axonkernel.policy.kinds import Kind, as_data, listed, text
from axonkernel.policy.model import SubjectRules, ToolRules, Verdict

__all__ = ["tools"]

_VERDICTS: Mapping[Any, Verdict] = {
    True: "allow",
    False: "deny",
    "allow": "allow",
    "deny": "deny",
    "escalate": "escalate",
}
#: What other languages write for an answer, and what it is here.
_MEANT = {
    **dict.fromkeys(("yes", "y", "on", "true"), "allow"),
    **dict.fromkeys(("no", "n", "off", "false", "none"), "deny"),
}
_PATTERN_KEYS = frozenset({"allow", "deny", "escalate"})
#: Deeper than any tool name; keeps a hostile table from exhausting the stack.
_DEEPEST = 16

_subjects = Block(
    SubjectRules,
    (
        Field("allow", listed(text), "Subjects that are allowed; when given, others are denied."),
        Field("deny", listed(text), "Subjects that are denied."),
        Field("escalate", listed(text), "Subjects a person is asked about."),
    ),
    "Patterns on the subject of a tool; * matches anything.",
)

_Level = dict[str, Any]


def _segments(key: object, place: Place) -> tuple[str, ...] | None:
    name = text.read(key, place)
    if name is None:
        return None
    parts = tuple(name.split("."))
    if "" in parts or any(part != part.strip() for part in parts):
        return place.fault("is not a tool name", key, '"group.tool"')
    if any("*" in part and part != "*" for part in parts):
        group = ".".join(part for part in parts if "*" not in part)
        return place.fault(
            "* stands for a whole word between dots", key, spelled(f"{group}.*" if group else "*")
        )
    if "*" in parts[:-1]:
        return place.fault("has words after *, which stands for all names below", key, '"*"')
    if len(parts) > _DEEPEST:
        return place.fault("has too many words", key)
    return parts


def _verdict(value: Any) -> Verdict | None:
    return _VERDICTS.get(value) if isinstance(value, bool | str) else None


def _read_entry(value: Any, place: Place, depth: int) -> Verdict | SubjectRules | _Level | None:
    verdict = _verdict(value)
    if verdict is not None:
        return verdict
    if isinstance(value, Mapping):
        patterns = _PATTERN_KEYS & value.keys()
        if not patterns:
            return _read_level(value, place, depth + 1)
        return _read_patterns(value, place)
    if isinstance(value, list | tuple):
        hint = f"{{ allow = {spelled(list(value))} }}"
        return place.fault("must be a verdict or a table, not a list", value, hint)
    close = _MEANT.get(value.lower()) if isinstance(value, str) else None
    if close is None and isinstance(value, str):
        close = nearest(value, ["allow", "deny", "escalate"])
    return place.fault(
        f'must be true, false, "allow", "deny", "escalate" or a table, not {type_name(value)}',
        value,
        spelled(close or "escalate"),
    )


def _read_patterns(value: Mapping[Any, Any], place: Place) -> SubjectRules | None:
    others = [str(key) for key in value if key not in _PATTERN_KEYS]
    if others:
        return place.fault(
            f"mixes patterns with names below ({', '.join(others)})",
            dict(value),
            'put the patterns under "*", or the names in dotted form beside this table',
        )
    for key, patterns in value.items():
        if _verdict(patterns) is not None:
            place.at(key).fault(
                "is a list of patterns here, not the name of a tool",
                patterns,
                f'{key} = ["*"], or the dotted name of a tool called {key}',
            )
    lists = {key: item for key, item in value.items() if _verdict(item) is None}
    rules: SubjectRules = _subjects.read(lists, place)
    return rules


def _read_level(value: Mapping[Any, Any], place: Place, depth: int) -> _Level:
    level: _Level = {}
    for key, entry in value.items():
        spot = place.at(key)
        if depth >= _DEEPEST:
            spot.fault("is nested too deep for a tool name", None)
            continue
        parts = _segments(key, spot)
        item = _read_entry(entry, spot, depth + len(parts or ()) - 1)
        if parts is None or item is None:
            continue
        if parts == ("*",) and isinstance(item, dict):
            spot.fault('"*" stands for all names below and has none of its own', entry)
            continue
        _insert(level, parts, item, spot)
    return level


def _insert(level: _Level, parts: tuple[str, ...], item: Any, place: Place) -> None:
    for part in parts[:-1]:
        level = level.setdefault(part, {})
        if not isinstance(level, dict):
            _conflict(part, place)
            return
    last = parts[-1]
    if last not in level:
        level[last] = item
    elif isinstance(level[last], dict) and isinstance(item, dict):
        for name, below in item.items():
            _insert(level[last], (name,), below, place)
    else:
        _conflict(last, place)


def _conflict(part: str, place: Place) -> None:
    place.fault(
        f"{part} has two meanings: one for itself and one for names below, or one twice",
        None,
        f'{spelled(part)[1:-1]} = {{ "*" = ..., name = ... }} in one table',
    )


def _freeze(level: _Level) -> ToolRules:
    return ToolRules(
        tuple(
            (name, _freeze(item) if isinstance(item, dict) else item)
            for name, item in sorted(level.items())
        )
    )


def _read(value: Any, place: Place) -> ToolRules | None:
    if value is False:
        return ToolRules()
    if not isinstance(value, Mapping):
        verdict = _verdict(value)
        hint = f'{{ "*" = {spelled(verdict)} }}' if verdict else ""
        if value is None:
            hint = "leave it out (no opinion), or write false to close it"
        return place.fault(f"must be a table, not {type_name(value)}", value, hint)
    names = {}
    for key, entry in value.items():
        if key in _PATTERN_KEYS:
            _top_word(key, entry, place.at(key))
        else:
            names[key] = entry
    return _freeze(_read_level(names, place, 0))


def _top_word(key: str, entry: Any, place: Place) -> None:
    word = {"allow": True, "deny": False}.get(key, key)
    tools = entry if isinstance(entry, list | tuple) else ["*"]
    hint = ", ".join(f"{spelled(str(tool))} = {spelled(word)}" for tool in tools)
    place.fault("is a verdict, not the name of a tool", entry, hint)


def _write(rules: ToolRules) -> dict[str, Any]:
    return dict(_lines(rules, ""))


def _lines(rules: ToolRules, prefix: str) -> Iterator[tuple[str, Any]]:
    """Every entry under its dotted name, which is the spelling that needs no exceptions."""
    for name, item in rules.entries:
        dotted = f"{prefix}{name}"
        if isinstance(item, SubjectRules):
            yield dotted, _subjects.write(item) or {"deny": []}
        elif isinstance(item, ToolRules) and item.entries:
            yield from _lines(item, f"{dotted}.")
        else:
            yield dotted, as_data(item) if isinstance(item, str) else {}


_entry_schema = {
    "anyOf": [
        {"type": "boolean"},
        {"enum": ["allow", "deny", "escalate"]},
        {
            "type": "object",
            "minProperties": 1,
            **{key: item for key, item in _subjects.schema().items() if key != "type"},
        },
        {
            "type": "object",
            "propertyNames": {"not": {"enum": sorted(_PATTERN_KEYS)}},
            "additionalProperties": {"$ref": "#/$defs/tool"},
        },
    ]
}

tools = Kind(
    _read,
    {
        "anyOf": [
            {"const": False},
            {
                "type": "object",
                "propertyNames": {"not": {"enum": sorted(_PATTERN_KEYS)}},
                "additionalProperties": {"$ref": "#/$defs/tool"},
            },
        ],
    },
    _write,
)

#: One entry of the map, for the ``$defs`` of the schema.
entry_schema = _entry_schema
