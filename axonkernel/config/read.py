"""The bytes of a policy file to data, with every way they can be broken told as a fault."""

from __future__ import annotations

from typing import Any

from axonkernel.errors import Fault, PolicyError
from axonkernel.policy.text import Format, loads_data

__all__ = ["read_data"]


def read_data(content: bytes, kind: Format, source: str) -> dict[str, Any]:
    """The mapping written in ``content``.

    Arguments:
        content: the file's bytes, UTF-8.
        source: the file's name, for messages.

    Raises:
        PolicyError: not UTF-8, not well formed, a key twice, too deep, or no mapping on top.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _broken(source, f"not UTF-8 text (byte {error.start})") from None
    data = loads_data(text, kind, source)
    if not isinstance(data, dict):
        raise _broken(source, "a policy is a mapping (an object), not a list or a value")
    return data


def _broken(source: str, message: str) -> PolicyError:
    return PolicyError([Fault("$", message)], source)
