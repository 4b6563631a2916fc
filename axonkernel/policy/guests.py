"""The ``wasm`` block. Its grants stay data: the wasm layer reads them."""

from __future__ import annotations

import re
from typing import Any

from attrs import frozen

from axonkernel.policy.entries import destination, path
from axonkernel.policy.faults import Place, spelled
from axonkernel.policy.fields import Block, Field
from axonkernel.policy.kinds import Kind, choice, count, listed, mapped, text
from axonkernel.policy.model import WasmPolicy
from axonkernel.policy.tuning import size, wall
from axonkernel.policy.words import value, variable_name

__all__ = ["wasm"]

_STEM = re.compile(r"[a-z0-9_-]+", re.ASCII)
_LARGEST_FUEL = 2**62

_GUEST_PATH = re.compile(r"/[^:\x00-\x1f]*(?::(?:ro|rw))?")


def _read_guest(entry: Any, place: Place) -> str | None:
    inside: str | None = text.read(entry, place)
    if inside is None:
        return None
    if not _GUEST_PATH.fullmatch(inside):
        return place.fault("must be a path in the guest, with :ro or :rw", entry, '"/data:ro"')
    return inside


_guest = Kind(_read_guest, {"type": "string", "pattern": rf"^{_GUEST_PATH.pattern}$"})


@frozen
class _Grant:
    """One tool's grant while it is being read."""

    dirs: tuple[tuple[str, str], ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    stdin: str = ""
    net: tuple[str, ...] = ()
    fuel: int | None = None
    wall: float | None = None
    memory: int | None = None
    stack: int | None = None
    output: int | None = None
    tables: int | None = None
    instances: int | None = None


_grant = Block(
    _Grant,
    (
        Field("dirs", mapped(path, _guest), "Host folder to its path in the guest."),
        Field("env", mapped(variable_name, value), "Variables, by value."),
        Field("stdin", value, "What the guest reads from its standard input."),
        Field("net", listed(destination), "Destinations."),
        Field("fuel", count(1, _LARGEST_FUEL), "Instructions."),
        Field("wall", wall, "Running time."),
        Field("memory", size, "Linear memory."),
        Field("stack", size, "Stack."),
        Field("output", size, "Bytes of output that are kept."),
        Field("tables", count(1), "Table elements."),
        Field("instances", count(1), "Instances."),
    ),
    "What one tool may touch and use; all of it is off by default.",
)


def _read_stem(entry: Any, place: Place) -> str | None:
    name: str | None = text.read(entry, place)
    if name is not None and not _STEM.fullmatch(name):
        hint = spelled(re.sub(r"[^a-z0-9_-]+", "-", name.lower().removesuffix(".wasm")))
        return place.fault("is not the name of a tool: its file's, without .wasm", entry, hint)
    return name


_stem = Kind(_read_stem, {"type": "string", "pattern": rf"^{_STEM.pattern}$"})
_table = mapped(_stem, _grant.kind, _stem.schema)


def _read_grants(entry: Any, place: Place) -> dict[str, Any] | None:
    """The grants as data in one spelling: absolute folders, bytes, seconds."""
    pairs = _table.read(entry, place)
    if pairs is None:
        return None
    return {name: _grant.write(grant) for name, grant in pairs if grant is not None}


_grants = Kind(_read_grants, _table.schema, dict)

wasm = Block(
    WasmPolicy,
    (
        Field("folders", listed(path), "Where tools are found."),
        Field("trust", choice("ask", "allow", "deny"), "What a new or changed tool gets."),
        Field("mode", choice("read-only", "ask", "full"), "What the levels of tools become."),
        Field("grants", _grants, "Tool to its own grant."),
    ),
    "Sandboxed tools.",
)
