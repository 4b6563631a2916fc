"""What is said to a proxy, and what it answers (pure): RFC 9110, 9.3.6."""

from __future__ import annotations

import base64
import re
from typing import Literal, NamedTuple
from urllib.parse import unquote_to_bytes, urlsplit

__all__ = ["REPLY_BYTES", "Proxy", "Reply", "parse_proxy", "read_reply", "request"]

#: The longest head of an answer.
REPLY_BYTES = 16 * 1024
_STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})(?: [^\r\n]*)?\r?\n")
_END = re.compile(rb"\r?\n\r?\n")


class Proxy(NamedTuple):
    """A proxy.

    Arguments:
        host, port: where it is.
        credentials: of its URL, as its header carries them; "" for none. Secret.
    """

    host: str
    port: int
    credentials: str = ""

    def __repr__(self) -> str:
        return f"Proxy({self.host!r}, {self.port})"


class Reply(NamedTuple):
    """What is known of the answer to CONNECT.

    Arguments:
        kind: ``more``, ``open``, ``refused`` or ``malformed``.
        status: of ``refused``.
        rest: of ``open``, what came through the proxy already.
    """

    kind: Literal["more", "open", "refused", "malformed"]
    status: int = 0
    rest: bytes = b""


def parse_proxy(url: str) -> Proxy:
    """The proxy of a URL from a policy; port 80 when it names none. Raises ValueError."""
    parts = urlsplit(url)
    if not parts.hostname:
        raise ValueError("no proxy in the URL")
    credentials = ""
    if parts.username is not None:
        user, password = map(unquote_to_bytes, (parts.username, parts.password or ""))
        credentials = base64.b64encode(user + b":" + password).decode("ascii")
    return Proxy(parts.hostname, parts.port or 80, credentials)


def request(host: str, port: int, credentials: str) -> bytes:
    """The request for a way to a host, whose name is canonical."""
    target = f"{host}:{port}"
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if credentials:
        lines.append(f"Proxy-Authorization: Basic {credentials}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode("ascii")


def read_reply(data: bytes) -> Reply:
    """What the first bytes of a proxy's answer say."""
    while True:
        end = _END.search(data)
        if end is None:
            wrong = len(data) > REPLY_BYTES or not b"HTTP/1.".startswith(data[:7])
            return Reply("malformed" if wrong else "more")
        status = _STATUS.match(data)
        if status is None:
            return Reply("malformed")
        data = data[end.end() :]
        if not status[1].startswith(b"1"):  # what comes before the answer
            break
    if status[1].startswith(b"2"):
        return Reply("open", rest=data)
    return Reply("refused", int(status[1]))
