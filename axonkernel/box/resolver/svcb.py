"""What HTTPS and SVCB records say (pure): RFC 9460.

Only what tells how to speak to a name that is asked for by itself is kept: hints would lead to
addresses that nobody looked at, keys for an encrypted hello would hide which name is meant.
"""

from __future__ import annotations

import struct
from collections.abc import Collection

__all__ = ["kept"]

_MANDATORY, _ALPN, _NO_DEFAULT_ALPN, _PORT = 0, 1, 2, 3
_KEPT = (_ALPN, _NO_DEFAULT_ALPN, _PORT)
_SELF = b"\0"


def kept(value: bytes, ports: Collection[range]) -> bytes | None:
    """The record without what is not kept; None for one that is of no use then.

    Arguments:
        value: its data, without compression.
        ports: those that the name is granted for by TCP.
    """
    try:
        (priority,) = struct.unpack_from("!H", value)
        if not priority or value[2:3] != _SELF:
            return None  # an alias, or a service under another name, which has to be granted
        parameters = _parameters(value, 3)
        mandatory = parameters.get(_MANDATORY, b"")
        needed = struct.unpack(f"!{len(mandatory) // 2}H", mandatory)
        port = parameters.get(_PORT)
        (number,) = struct.unpack("!H", port) if port is not None else (0,)
    except struct.error:
        return None
    if any(key not in _KEPT for key in needed):
        return None
    if number and not any(number in some for some in ports):
        return None
    keys = [key for key in (_MANDATORY, *_KEPT) if key in parameters]
    body = [struct.pack("!HH", key, len(parameters[key])) + parameters[key] for key in keys]
    return value[:3] + b"".join(body)


def _parameters(value: bytes, at: int) -> dict[int, bytes]:
    found = {}
    while at < len(value):
        key, length = struct.unpack_from("!HH", value, at)
        at += 4
        if at + length > len(value):
            raise struct.error("a parameter goes beyond the end")
        found[key] = value[at : at + length]
        at += length
    return found
