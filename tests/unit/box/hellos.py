"""ClientHellos to read: what a real client sends, and ones built piece by piece."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Sequence

__all__ = ["GREASE", "extension", "hello", "real", "records", "server_name"]

GREASE = 0x7A7A


def real(name: str | None) -> bytes:
    """What OpenSSL sends first for a name."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    sent = ssl.MemoryBIO()
    client = context.wrap_bio(ssl.MemoryBIO(), sent, server_hostname=name)
    try:
        client.do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()
    raise AssertionError("a handshake without a server")


def vector(width: int, content: bytes) -> bytes:
    return len(content).to_bytes(width, "big") + content


def extension(kind: int, content: bytes = b"") -> bytes:
    return kind.to_bytes(2, "big") + vector(2, content)


def server_name(*names: bytes, kind: int = 0) -> bytes:
    """The extension with these names."""
    entries = b"".join(bytes([kind]) + vector(2, name) for name in names)
    return extension(0, vector(2, entries))


def hello(extensions: Sequence[bytes] | None, *, session: bytes = b"", extra: bytes = b"") -> bytes:
    """A ClientHello message; without the field of extensions for None."""
    body = b"\x03\x03" + bytes(range(32)) + vector(1, session)
    body += vector(2, b"\x7a\x7a\x13\x01") + vector(1, b"\0")
    if extensions is not None:
        body += vector(2, b"".join(extensions))
    return b"\x01" + vector(3, body + extra)


def records(message: bytes, sizes: Iterable[int] = (), *, minor: int = 1) -> bytes:
    """A message in records of these sizes, the rest of it in as few as can be."""
    out = b""
    for size in (*sizes, *[1 << 14] * (len(message) // (1 << 14) + 1)):
        if message:
            out += bytes([22, 3, minor]) + vector(2, message[:size])
            message = message[size:]
    return out
