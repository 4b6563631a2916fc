"""What one HTTP request may carry, and what a redirect makes of it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from attrs import evolve, frozen

from axonkernel.errors import ToolError

__all__ = ["Outgoing", "outgoing"]

_MOST_HEADERS = 64
_LARGEST_HEADERS_BYTES = 16 * 1024

_METHODS = frozenset("GET HEAD POST PUT PATCH DELETE OPTIONS".split())
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_VALUE = re.compile(r"[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?\Z|\Z")
#: They say where a message ends or to whom it goes, which is not for the caller to say.
_OURS = frozenset(
    """
    accept-encoding connection content-length expect host http2-settings keep-alive
    proxy-authenticate proxy-authorization proxy-connection te trailer transfer-encoding upgrade
    via
    """.split()
)
#: What may go on to another origin; anything else can be a credential.
_HARMLESS = frozenset({"accept", "accept-language", "content-type", "user-agent"})
_OF_A_BODY = frozenset({"content-type", "content-language", "content-location"})


@frozen
class Outgoing:
    """One request, but for its address.

    Arguments:
        headers: lower-case names, in order.
        body: None for none.
    """

    method: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None

    def redirected(self, status: int, *, same_origin: bool) -> Outgoing:
        """What follows a redirect: 303 asks for the answer with GET, as 301 and 302 do after
        POST; another origin gets no credentials."""
        sent = self
        to_get = status == 303 and self.method != "HEAD"
        if to_get or (status in (301, 302) and self.method == "POST"):
            kept = tuple(each for each in self.headers if each[0] not in _OF_A_BODY)
            sent = Outgoing("GET", kept)
        if same_origin:
            return sent
        return evolve(sent, headers=tuple(each for each in sent.headers if each[0] in _HARMLESS))


def outgoing(tool: str, method: str, headers: Mapping[str, str] | None, body: Any) -> Outgoing:
    """A request as it will be sent. Raises ToolError for one that cannot be.

    The body is as long as the arguments of a call may be (1 MiB): beyond that it is denied.
    """
    if not isinstance(method, str) or method.upper() not in _METHODS:
        raise ToolError(tool, f"the method is one of {', '.join(sorted(_METHODS))}")
    if body is not None and not isinstance(body, str):
        raise ToolError(tool, "body must be text")
    data = None if body is None else body.encode("utf-8", "surrogateescape")
    return Outgoing(method.upper(), _headers(tool, headers or {}), data)


def _headers(tool: str, headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    if not isinstance(headers, Mapping):
        raise ToolError(tool, "headers are names with values")
    found: dict[str, str] = {}
    for name, value in headers.items():
        if not isinstance(name, str) or not _NAME.match(name):
            raise ToolError(tool, f"{name!r} is not a header name")
        if name.lower() in _OURS or name.lower() in found:
            raise ToolError(tool, f"the header {name} cannot be set, or is there twice")
        if not isinstance(value, str) or not _VALUE.match(value):
            raise ToolError(tool, f"the value of {name} is printable ASCII without line breaks")
        found[name.lower()] = value
    size_bytes = sum(len(name) + len(value) for name, value in found.items())
    if len(found) > _MOST_HEADERS or size_bytes > _LARGEST_HEADERS_BYTES:
        raise ToolError(tool, f"at most {_MOST_HEADERS} headers of {_LARGEST_HEADERS_BYTES} bytes")
    return tuple(found.items())
