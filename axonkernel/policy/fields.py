"""Tables: the fields of a block, read, written back and described from one list."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from attrs import frozen

from axonkernel.policy.faults import Place, nearest, spelled, type_name
from axonkernel.policy.kinds import Kind

__all__ = ["Block", "Field", "unknown_key"]


@frozen
class Field:
    """One key of a table.

    Arguments:
        name: as written.
        kind: what its value is.
        doc: one or two sentences for the schema.
        attr: the attribute of the model; "" when it has the field's name.
    """

    name: str
    kind: Kind
    doc: str
    attr: str = ""

    @property
    def attribute(self) -> str:
        """The attribute of the model class that holds the value."""
        return self.attr or self.name


def unknown_key(key: object, known: Mapping[str, Any], place: Place) -> None:
    """A fault for a key that is not in a table, with the one that was meant."""
    close = nearest(key, known) if isinstance(key, str) else None
    hint = close or f"one of {', '.join(known)}"
    place.fault("is not a known key", key, hint)


def _as_read(block: Any, _place: Place) -> Any:
    return block


@frozen
class Block:
    """A table with fixed keys that becomes one model class.

    Arguments:
        cls: the attrs class it becomes.
        fields: its keys.
        doc: for the schema.
        closable: whether ``false`` stands for the table with nothing in it.
        openers: keys that grant something; a table that has others only is a fault, because
            it reads like "all but" and would mean "nothing at all".
        fix: the line that makes such a table mean "all but".
        finish: looks at the whole block, notes combinations that cannot be, and returns it.
    """

    cls: type[Any]
    fields: tuple[Field, ...]
    doc: str
    closable: bool = False
    openers: tuple[str, ...] = ()
    fix: str = ""
    finish: Callable[[Any, Place], Any] = _as_read

    @property
    def kind(self) -> Kind:
        """The block as a kind of value, so that tables nest."""
        return Kind(self.read, self.schema(), self.write)

    def read(self, value: Any, place: Place) -> Any:
        """The model object, holding what could be read; faults are noted in ``place``."""
        if value is False and self.closable:
            return self.cls()
        if not isinstance(value, Mapping):
            message = f"must be a table, not {type_name(value)}"
            return place.fault(message, value, self._repair(value))
        known = {field.name: field for field in self.fields}
        parts: dict[str, Any] = {}
        for key, entry in value.items():
            if key not in known:
                unknown_key(key, known, place.at(key))
                continue
            part = self._read_field(known[key], entry, place.at(key))
            if part is not None:
                parts[known[key].attribute] = part
        # An unknown key may be a misspelt opener, which its own fault corrects.
        grants = any(key in self.openers or key not in known for key in value)
        if value and self.openers and not grants:
            self._only_tuning(value, place)
        return self.finish(self.cls(**parts), place)

    @staticmethod
    def _read_field(field: Field, entry: Any, place: Place) -> Any:
        if entry is None:
            return place.fault("null says nothing", None, "leave the key out")
        return field.kind.read(entry, place)

    def _only_tuning(self, value: Mapping[Any, Any], place: Place) -> None:
        keys = ", ".join(str(key) for key in value)
        place.fault(
            f"has only {keys}; a block that is there is a closed list, so nothing is granted",
            dict(value),
            self.fix,
        )

    def _repair(self, value: Any) -> str:
        if value is None:
            close = " (no opinion), or write false to close it" if self.closable else ""
            return f"leave it out{close}"
        if value is True and self.fix:
            return f"{{ {self.fix} }}"
        if value is False:
            return "leave it out: only fs, net, shell, env and tools can be closed"
        if isinstance(value, list | tuple) and self.openers:
            return f"{{ {self.openers[0]} = {spelled(list(value))} }}"
        return ""

    def write(self, block: Any) -> dict[str, Any]:
        """The block as data that :meth:`read` takes; what has its default is left out."""
        plain = self.cls()
        written = {}
        for field in self.fields:
            value = getattr(block, field.attribute)
            if value != getattr(plain, field.attribute):
                written[field.name] = field.kind.write(value)
        if written and self.openers and not any(key in written for key in self.openers):
            written[self.openers[0]] = []
        return written

    def schema(self) -> dict[str, Any]:
        """JSON Schema of the block as written."""
        table: dict[str, Any] = {
            "type": "object",
            "description": self.doc,
            "additionalProperties": False,
            "properties": {
                field.name: {**field.kind.schema, "description": field.doc} for field in self.fields
            },
        }
        if self.openers:
            table["anyOf"] = [
                {"maxProperties": 0},
                *({"required": [name]} for name in self.openers),
            ]
        if self.closable:
            return {"description": self.doc, "anyOf": [{"const": False}, table]}
        return table
