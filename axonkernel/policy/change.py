"""One edit of a policy, to apply and to paste."""

from __future__ import annotations

import json
import re
from typing import Any, Literal

from attrs import frozen

__all__ = ["Change", "edited"]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+\Z")


@frozen
class Change:
    """One edit of the data of a policy.

    Arguments:
        kind: ``add`` an entry to a list, ``set`` a value, ``remove`` an entry from a list.
        keys: where, from the top.
        value: the entry or the value.
        layer: the policy it is to be made in.
    """

    kind: Literal["add", "set", "remove"]
    keys: tuple[str, ...]
    value: Any
    layer: str = "policy"

    def __str__(self) -> str:
        """The line to paste as TOML, beside the entries that are there; or what to remove."""
        where = ".".join(map(_key, self.keys))
        note = "" if self.layer == "policy" else f"  # in the layer {self.layer}"
        if self.kind == "remove":
            return f"remove {_toml(self.value)} from {where}{note}"
        return f"{where} = {_toml([self.value] if self.kind == 'add' else self.value)}{note}"

    def as_dict(self) -> dict[str, Any]:
        """The edit as JSON data."""
        return {
            "kind": self.kind,
            "keys": list(self.keys),
            "value": self.value,
            "layer": self.layer,
        }


def edited(data: dict[str, Any], change: Change) -> dict[str, Any]:
    """A copy of ``data`` with the edit made. Raises ValueError where it does not fit."""
    copy: dict[str, Any] = json.loads(json.dumps(data))
    table = copy
    for key in change.keys[:-1]:
        table = table.setdefault(key, {})
    last = change.keys[-1]
    if change.kind == "set":
        table[last] = change.value
        return copy
    entries = table.setdefault(last, [])
    if not isinstance(entries, list):
        raise ValueError(f"{last} is no list")
    if change.kind == "add":
        entries.append(change.value)
    else:
        entries.remove(change.value)
    return copy


def _key(key: str) -> str:
    return key if _BARE_KEY.match(key) else _toml(key)


def _toml(value: Any) -> str:
    """A TOML value; strings escaped as in JSON, which TOML's basic strings understand."""
    if isinstance(value, dict):
        inner = ", ".join(f"{_key(key)} = {_toml(item)}" for key, item in value.items())
        return f"{{ {inner} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        # JSON leaves DEL as it is, and TOML does not take it.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return json.dumps(value)
