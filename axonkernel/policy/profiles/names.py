"""Files and destinations named in values and operands, where those are not just a path."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from axonkernel.policy.profiles.found import UNKNOWN, Contact
from axonkernel.policy.url import contacted

__all__ = ["CONTACTS", "below", "contact", "known_folder", "named_files"]

#: Roles whose value is connected to.
CONTACTS: Final = frozenset({"url", "elsewhere"})

_AWK_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=", re.DOTALL)
#: A part of curl's form field that is about the file before it.
_ABOUT: Final = re.compile(r"\s*(?:type|filename|encoder|headers)\s*=", re.IGNORECASE)
_HEADERS: Final = re.compile(r";\s*headers\s*=\s*[@<]\s*\"?([^;\"]*)", re.IGNORECASE)
_OUTPUT: Final = re.compile(r"%output\{(?:>>)?([^}]*)")


def known_folder(path: str) -> str | None:
    """The folder that all files lie in which a pattern such as ``src/*.py`` stands for."""
    path = path.replace(UNKNOWN, "")
    if any(mark in path for mark in "$`{<(~!"):
        return None
    start = min(at for at in (*map(path.find, "*?["), len(path)) if at >= 0)
    return path[: path.rfind("/", 0, start) + 1] or "."


def below(base: str, path: str) -> str:
    return path if path.startswith("/") or not base else f"{base}/{path}"


def named_files(role: str, value: str) -> Iterator[tuple[str | None, bool]]:
    """The files in a value that is not always one, and whether they are written.

    None stands for a file whose name cannot be told.
    """
    if role == "at":
        yield from [(value[1:], False)] if value.startswith("@") else []
    elif role == "named-at":
        name, at, path = value.partition("@")
        yield from [(path, False)] if at and "=" not in name else []
    elif role == "cookies":
        yield from [(value.removeprefix("@"), False)] if "=" not in value else []
    elif role == "form":
        yield from ((path, False) for path in _form_files(value))
    elif role == "format":
        yield from [(value[1:], False)] if value.startswith("@") else []
        yield from ((path, True) for path in _OUTPUT.findall(value))
    elif role in ("numbered-write", "several-read"):
        unclear = "#" in value if role == "numbered-write" else not {"{", "["}.isdisjoint(value)
        yield None if unclear else value, role == "numbered-write"
    elif role in ("uri-read", "uri-write"):
        yield None if value[:5].lower() == "file:" else value, role == "uri-write"
    elif role == "url":
        yield from ((path, False) for path in _url_files(value))
    elif role in ("local-read", "local-write"):
        colon, slash = value.find(":"), value.find("/")
        yield from [(value, role == "local-write")] if colon < 0 or -1 < slash < colon else []
    elif role in ("outside-read", "outside-write"):
        leaves = value.startswith("/") or ".." in value.split("/")
        yield from [(value, role == "outside-write")] if leaves else []
    elif role == "assigned-read":
        yield from [] if _AWK_ASSIGNMENT.match(value) else [(value, False)]


def _form_files(value: str) -> Iterator[str | None]:
    """curl(1): ``NAME=@FILE,FILE;type=T``, ``NAME=<FILE``, ``;headers=<FILE``.

    Names between quotes may hold the separators, and escapes.
    """
    content = value.partition("=")[2].lstrip()
    yield from _HEADERS.findall(content)
    if content[:1] == "<":
        yield content[1:].partition(";")[0].strip()
    elif content[:1] == "@" and ('"' in content or "\\" in content):
        yield None
    elif content[:1] == "@":
        parts = re.split("[,;]", content[1:])
        yield from (part.strip() for part in parts if not _ABOUT.match(part))


def _url_files(value: str) -> Iterator[str | None]:
    """curl reads ``file:`` addresses, in which braces and brackets stand for several."""
    if value.startswith("@"):
        yield value[1:]
    start = value.partition("/")[0]
    if not {"{", "["}.isdisjoint(start) and not _bracketed(start):
        yield None
    scheme, colon, rest = value.partition(":")
    if colon and scheme.lower() == "file":
        path = "/" + rest[2:].partition("/")[2] if rest.startswith("//") else rest
        # Encoded letters are decoded, and several names may stand in braces.
        yield None if not {"%", "{", "["}.isdisjoint(path) else path


def _bracketed(start: str) -> bool:
    """Whether a word without a scheme starts with an IPv6 address."""
    return re.match(r"\[[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*\]", start) is not None


def contact(role: str, value: str) -> Contact | None:
    """Where a value leads that is connected to; None where nothing is."""
    shown = value.replace(UNKNOWN, "")
    if UNKNOWN in value:
        return Contact(shown, dynamic=True)
    if role == "elsewhere":
        return Contact(shown)
    if value[:5].lower() == "file:":
        return None
    try:
        return Contact(shown, *contacted(value))
    except ValueError:
        return Contact(shown)
