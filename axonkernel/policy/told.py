"""Requests in messages: bounded, and printable."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

__all__ = ["beginning", "told"]

#: A message carries no more characters of a request than this.
MOST_TOLD = 4096
#: A message carries no more characters of a tool's arguments than this.
MOST_SPELLED = 200


def told(text: str) -> str:
    """``text`` for a message: bounded, and printable where a character has no bytes."""
    if len(text) > MOST_TOLD:
        text = f"{text[:MOST_TOLD]}... ({len(text)} characters)"
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def beginning(args: Mapping[str, Any]) -> str:
    """The first characters of arguments as JSON text; "" where there are none."""
    if not args:
        return ""
    short = {
        name: value[:MOST_SPELLED] if isinstance(value, str) else value
        for name, value in args.items()
    }
    text = json.dumps(short, default=repr)
    return text if len(text) <= MOST_SPELLED else f"{text[: MOST_SPELLED - 3]}..."
