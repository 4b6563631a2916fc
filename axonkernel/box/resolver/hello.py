"""The first bytes of a connection -> the server name a TLS client asks for (pure).

Read as strictly as RFC 8446 (records, ClientHello) and RFC 6066 (server names) are written:
whatever two servers could read differently is refused, since the name that is compared must be
the name that the server acts on.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from axonkernel.policy.hosts import canonical_host, literal

__all__ = ["HELLO_BYTES", "RAW_BYTES", "Hello", "HelloReader"]

#: The longest ClientHello, many times what clients with post-quantum key shares send.
HELLO_BYTES = 32 * 1024
#: The longest it may be with the headers of its records, however small those are.
RAW_BYTES = 48 * 1024

_HANDSHAKE, _CLIENT_HELLO = 22, 1
_RECORD_BYTES = 1 << 14
_RECORD_HEADER, _MESSAGE_HEADER = 5, 4
_SERVER_NAME, _HOST_NAME = 0, 0
#: encrypted_client_hello, its drafts, and the encrypted_server_name before it. A made-up one
#: (GREASE) looks the same as a real one, as it is meant to.
_ENCRYPTED = frozenset((*range(0xFE08, 0xFE0E), 0xFFCE))


class Hello(NamedTuple):
    """What is known of a connection's first bytes.

    Arguments:
        kind: ``more`` (not enough yet), ``name``, ``none`` (TLS without a server name),
            ``encrypted`` (the real name may be hidden), ``not-tls`` or ``malformed``.
        name: lower-case, without a trailing dot; for ``name`` alone.
    """

    kind: Literal["more", "name", "none", "encrypted", "not-tls", "malformed"]
    name: str = ""


_MORE = Hello("more")
_NOT_TLS = Hello("not-tls")
_MALFORMED = Hello("malformed")


class _Malformed(Exception):
    """Bytes that are no ClientHello."""


class HelloReader:
    """Reads a ClientHello from parts of any size. Costs time in proportion to the bytes."""

    def __init__(self) -> None:
        self._raw = 0
        self._record = bytearray()
        self._message = bytearray()

    def feed(self, part: bytes) -> Hello:
        """What is known after one more part. Not to be asked again after another answer
        than ``more``."""
        self._raw += len(part)
        self._record += part
        try:
            return self._read()
        except _Malformed:
            return _MALFORMED

    def _read(self) -> Hello:
        if not _begins_as_record(self._record):
            # Bytes after a good first record are TLS of the wrong kind, not another protocol.
            return _MALFORMED if self._message else _NOT_TLS
        while (fragment := _take_record(self._record)) is not None:
            self._message += fragment
            if (body := _complete(self._message)) is not None:
                return _asked(body)
            if not _begins_as_record(self._record):
                return _MALFORMED
        return _MORE if self._raw <= RAW_BYTES else _MALFORMED


def _begins_as_record(data: bytearray) -> bool:
    """Whether so much as is there can be the header of a handshake record."""
    return bytes(data[:2]) in (b"", b"\x16", b"\x16\x03")


def _take_record(data: bytearray) -> bytearray | None:
    """Remove one whole record and give what it carries; None while it is not whole."""
    if len(data) < _RECORD_HEADER:
        return None
    length = int.from_bytes(data[3:5], "big")
    if not 0 < length <= _RECORD_BYTES:
        raise _Malformed
    if len(data) < _RECORD_HEADER + length:
        return None
    fragment = data[_RECORD_HEADER : _RECORD_HEADER + length]
    del data[: _RECORD_HEADER + length]
    return fragment


def _complete(message: bytearray) -> bytes | None:
    """The body of the ClientHello; None while it is not whole."""
    if message[0] != _CLIENT_HELLO:
        raise _Malformed
    if len(message) < _MESSAGE_HEADER:
        return None
    length = int.from_bytes(message[1:_MESSAGE_HEADER], "big")
    # Nothing may follow it in its record: RFC 8446, 5.1.
    if length > HELLO_BYTES or len(message) > _MESSAGE_HEADER + length:
        raise _Malformed
    return bytes(message[_MESSAGE_HEADER:]) if len(message) == _MESSAGE_HEADER + length else None


class _Cursor:
    """Takes lengths and bytes off the front of a value."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def ended(self) -> bool:
        return self._at == len(self._data)

    def take(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise _Malformed
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, width: int) -> int:
        return int.from_bytes(self.take(width), "big")

    def vector(self, width: int, least: int, most: int) -> bytes:
        """Bytes behind a length of ``width`` bytes."""
        length = self.number(width)
        if not least <= length <= most:
            raise _Malformed
        return self.take(length)


def _asked(body: bytes) -> Hello:
    """The server name in the body of a ClientHello."""
    cursor = _Cursor(body)
    if cursor.number(2) >> 8 != 3:
        raise _Malformed
    cursor.take(32)  # random
    cursor.vector(1, 0, 32)  # session id
    if len(cursor.vector(2, 2, 0xFFFE)) % 2:  # cipher suites
        raise _Malformed
    cursor.vector(1, 1, 255)  # compression methods
    if cursor.ended:
        return Hello("none")
    extensions = _extensions(cursor.vector(2, 0, 0xFFFF))
    if not cursor.ended:
        raise _Malformed
    name = _server_name(extensions[_SERVER_NAME]) if _SERVER_NAME in extensions else ""
    if _ENCRYPTED & extensions.keys():
        return Hello("encrypted")
    return Hello("name", name) if name else Hello("none")


def _extensions(data: bytes) -> dict[int, bytes]:
    """Type to content. No type comes twice: servers differ in which of the two they take."""
    found: dict[int, bytes] = {}
    cursor = _Cursor(data)
    while not cursor.ended:
        kind = cursor.number(2)
        if kind in found:
            raise _Malformed
        found[kind] = cursor.vector(2, 0, 0xFFFF)
    return found


def _server_name(content: bytes) -> str:
    """The one host name of the extension; an address is none (RFC 6066, 3)."""
    outer = _Cursor(content)
    names = _Cursor(outer.vector(2, 1, 0xFFFF))
    kind, text = names.number(1), names.vector(2, 1, 0xFFFF)
    if kind != _HOST_NAME or not names.ended or not outer.ended or not text.isascii():
        raise _Malformed
    try:
        name = canonical_host(text.decode("ascii"))
    except ValueError:
        raise _Malformed from None
    if literal(name) is not None:
        raise _Malformed
    return name
