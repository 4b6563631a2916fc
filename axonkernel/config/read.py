"""TOML and JSON text to data, with every way it can be broken told as a fault."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable
from typing import Any

from axonkernel.errors import Fault, PolicyError

__all__ = ["read_data"]


def read_data(content: bytes, kind: str, source: str) -> dict[str, Any]:
    """The mapping written in ``content``.

    Arguments:
        content: the file's bytes, UTF-8.
        kind: ``toml`` or ``json``.
        source: the file's name, for messages.

    Raises:
        PolicyError: not UTF-8, not well formed, a key twice, too deep, or no mapping on top.
    """
    try:
        text = content.decode("utf-8-sig")
        data = tomllib.loads(text) if kind == "toml" else _json(text)
    except UnicodeDecodeError as error:
        raise _broken(source, f"not UTF-8 text (byte {error.start})") from None
    except RecursionError:
        raise _broken(source, "nested too deeply") from None
    except ValueError as error:  # of both parsers, and of our own hooks
        raise _broken(source, f"not valid {kind.upper()}: {error}") from None
    if not isinstance(data, dict):
        raise _broken(source, "a policy is a mapping (an object), not a list or a value")
    return data


def _json(text: str) -> Any:
    return json.loads(text, object_pairs_hook=_distinct, parse_constant=_no_constant)


def _distinct(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for key, value in pairs:
        if key in data:
            raise ValueError(f"the key {key!r} is written twice")
        data[key] = value
    return data


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _broken(source: str, message: str) -> PolicyError:
    return PolicyError([Fault("$", message)], source)
