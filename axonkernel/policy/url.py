"""Web addresses, read strictly and written in one spelling.

The same function reads a URL to judge it and to fetch it, and its result is what is sent. What
two parsers could cut at different places is refused instead of repaired.
"""

from __future__ import annotations

import re
from typing import Literal
from urllib.parse import urljoin

from attrs import frozen

from axonkernel.policy.hosts import canonical_host

__all__ = ["LONGEST_URL", "Url", "contacted", "parse_url"]

LONGEST_URL = 8_192

_PORTS = {"http": 80, "https": 443}
#: Further schemes of clients such as curl, which are judged and never fetched here.
_OTHER_PORTS = {
    "dict": 2628, "ftp": 21, "ftps": 990, "gopher": 70, "gophers": 70, "imap": 143, "imaps": 993,
    "ldap": 389, "ldaps": 636, "mqtt": 1883, "pop3": 110, "pop3s": 995, "rtmp": 1935, "rtsp": 554,
    "scp": 22, "sftp": 22, "smb": 445, "smbs": 445, "smtp": 25, "smtps": 465, "telnet": 23,
    "tftp": 69, "ws": 80, "wss": 443,
}  # fmt: skip
#: curl guesses the scheme of an address without one by these.
_GUESSED = ("dict.", "ftp.", "imap.", "ldap.", "pop3.", "smtp.")
_PARTS = re.compile(
    r"(?P<scheme>[A-Za-z]+)://(?P<authority>[^/?#]*)(?P<path>[^?#]*)(?P<query>\?[^#]*)?(?:#.*)?\Z",
    re.DOTALL,
)
_AUTHORITY = re.compile(
    r"(?:\[(?P<literal>[^\[\]]*)\]|(?P<name>[^\[\]:]*))(?::(?P<port>[0-9]+))?\Z"
)
#: RFC 3986: the characters that mean the same encoded and not.
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_ESCAPE = re.compile(r"%(?P<code>[0-9A-Fa-f]{2})|(?P<bad>%)")


@frozen
class Url:
    """A web address without user, password and fragment.

    Arguments:
        scheme: ``http`` or ``https``.
        host: a lower-case name or an address in its one spelling.
        port: always there.
        target: path and query, percent-encoded, without dot segments.
    """

    scheme: str
    host: str
    port: int
    target: str

    @property
    def authority(self) -> str:
        """Host and port, the port only where it is not the scheme's own."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _PORTS[self.scheme] else f"{host}:{self.port}"

    @property
    def origin(self) -> tuple[str, str, int]:
        """What credentials belong to."""
        return self.scheme, self.host, self.port

    def joined(self, reference: str) -> Url:
        """Where a reference found at this address leads. Raises ValueError."""
        _refuse_characters(reference)
        return parse_url(urljoin(str(self), reference))

    def __str__(self) -> str:
        return f"{self.scheme}://{self.authority}{self.target}"


def parse_url(text: str) -> Url:
    """An absolute ``http`` or ``https`` URL.

    Raises ValueError for user names and passwords, backslashes, blanks, control characters,
    ports beyond 1 to 65535, ambiguous hosts and other schemes.
    """
    _refuse_characters(text)
    parts = _PARTS.match(text)
    if parts is None:
        raise ValueError(f"{_shown(text)} is not an absolute URL, such as https://example.com/")
    scheme = parts["scheme"].lower()
    if scheme not in _PORTS:
        raise ValueError(f"{_shown(text)}: the scheme is http or https")
    host, port = _authority(parts["authority"], text)
    path = _without_dots(_encoded(parts["path"])) or "/"
    query = _encoded(parts["query"] or "")
    return Url(scheme, host, _PORTS[scheme] if port is None else port, path + query)


def contacted(text: str) -> tuple[str, int, Literal["tcp", "udp"]]:
    """Host, port and protocol that a client such as curl connects to for an address.

    The host is read by the rules of :func:`parse_url`; what stands behind it is not looked at.
    Raises ValueError where it cannot be told.
    """
    scheme, apart, rest = text.partition("://")
    if not apart or not scheme.isalnum():
        scheme, rest = "http", text
        if rest.lower().startswith(_GUESSED):
            raise ValueError(f"{_shown(text)}: write the scheme")
    scheme = scheme.lower()
    if scheme not in _PORTS and scheme not in _OTHER_PORTS:
        raise ValueError(f"{_shown(text)} has a scheme that is not known")
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    _refuse_characters(authority)
    host, port = _authority(authority, text)
    usual = _PORTS.get(scheme) or _OTHER_PORTS[scheme]
    return host, usual if port is None else port, "udp" if scheme == "tftp" else "tcp"


def _refuse_characters(text: str) -> None:
    if len(text) > LONGEST_URL:
        raise ValueError(f"a URL of {len(text)} characters; the most is {LONGEST_URL}")
    for character in text:
        if character <= " " or character == "\x7f" or not character.isprintable():
            raise ValueError(f"{_shown(text)} has a blank or control character; percent-encode it")
        if character in '\\"<>^`{|}':
            raise ValueError(f"{_shown(text)} has {character!r}; percent-encode it")


def _authority(authority: str, text: str) -> tuple[str, int | None]:
    if "@" in authority:
        raise ValueError("a URL with a user name or password")
    parts = _AUTHORITY.match(authority)
    if parts is None or "%" in authority:
        raise ValueError(f"{_shown(text)}: after :// comes HOST or HOST:PORT")
    if parts["literal"] is not None and ":" not in parts["literal"]:
        raise ValueError(f"{_shown(text)}: brackets are for IPv6 addresses")
    host = canonical_host(parts["literal"] or parts["name"] or "")
    if parts["port"] is None:
        return host, None
    port = int(parts["port"][:9])
    if not 1 <= port <= 65535:
        raise ValueError(f"{_shown(text)}: a port is 1 to 65535")
    return host, port


def _encoded(text: str) -> str:
    """Percent-encoding in one spelling: upper-case, and only where it is needed."""
    return "".join(
        piece if piece.startswith("%") else _encoded_characters(piece)
        for piece in re.split(r"(%[0-9A-F]{2})", _ESCAPE.sub(_escape, text))
    )


def _escape(match: re.Match[str]) -> str:
    if match["bad"]:
        raise ValueError("a URL with % that starts no percent-encoding; write %25")
    character = chr(int(match["code"], 16))
    return character if character in _UNRESERVED else f"%{match['code'].upper()}"


def _encoded_characters(text: str) -> str:
    return "".join(
        _percent(character) if character in "[]" or not character.isascii() else character
        for character in text
    )


def _percent(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def _without_dots(path: str) -> str:
    """RFC 3986, 5.2.4: what ``.`` and ``..`` mean, before anyone else applies it."""
    kept: list[str] = []
    for segment in path.split("/")[1:]:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if path.endswith(("/.", "/..")):
        kept.append("")
    return "/" + "/".join(kept)


def _shown(text: str) -> str:
    return repr(text[:100])
