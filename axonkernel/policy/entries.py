"""Single entries of a policy that name things outside: paths, programs, destinations."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from axonkernel.policy.faults import Place, spelled
from axonkernel.policy.globs import is_glob, unescape
from axonkernel.policy.kinds import Kind, read_text
from axonkernel.policy.match import normalize, parse_destination
from axonkernel.policy.secrets import without_credentials

__all__ = ["destination", "path", "path_glob", "program", "proxy", "resolver"]

_BARE_QUESTION = re.compile(r"(?<!\\)\?")


def _absolute(text: str, place: Place, spell: Callable[[str], str]) -> str | None:
    """``text`` from the root. ``spell`` fits the folders we put in front into its dialect."""
    if text == "~" or text.startswith("~/"):
        if place.home is None:
            return place.fault("~ has no meaning here", text, "write the folder out")
        return normalize(f"{spell(place.home)}/{text[1:]}")
    if text.startswith("~"):
        hint = f"{spelled('./' + text)} for a file of that name"
        return place.fault("only ~ and ~/ stand for a home folder", text, hint)
    return normalize(text if text.startswith("/") else f"{spell(place.base)}/{text}")


def _read_path(value: Any, place: Place) -> str | None:
    text = read_text(value, place)
    if text is None:
        return None
    if is_glob(text) or _BARE_QUESTION.search(text):
        folder = re.split(r"[*?]", text)[0].rpartition("/")[0]
        folder = folder or ("/" if text.startswith("/") else ".")
        return place.fault(
            "takes no globs: a folder covers everything below it", value, spelled(folder)
        )
    return _absolute(unescape(text).replace("\\?", "?"), place, str)


def _read_path_glob(value: Any, place: Place) -> str | None:
    text = read_text(value, place)
    if text is None:
        return None
    if _BARE_QUESTION.search(text):
        return place.fault(
            "has no ? wildcard", value, f"{spelled(text.replace('?', '*'))}, or \\? for the sign"
        )
    return _absolute(text.replace("\\?", "?"), place, _escape_stars)


def _escape_stars(text: str) -> str:
    return text.replace("*", "\\*")


def _escape_questions(text: str) -> str:
    return text.replace("?", "\\?")


def _escape(text: str) -> str:
    return _escape_questions(_escape_stars(text))


_PATH_NOTE = "Relative paths count from the folder of the policy; ~ is the home folder."

path = Kind(
    _read_path,
    {
        "type": "string",
        "pattern": r"^([^*?\u0000-\u001f\u007f]|\\[*?])+$",
        "description": "A file, or a folder with everything below it. No globs; brackets are "
        rf"taken literally, \* is a star in a name. {_PATH_NOTE}",
    },
    _escape,
)

path_glob = Kind(
    _read_path_glob,
    {
        "type": "string",
        "pattern": r"^([^?\u0000-\u001f\u007f]|\\[?])+$",
        "description": "A path or a glob: * stays in one segment, ** crosses segments. "
        + _PATH_NOTE,
    },
    _escape_questions,
)


def _read_destination(value: Any, place: Place) -> str | None:
    text = read_text(value, place)
    if text is None:
        return None
    parsed = place.attempt(parse_destination, text)
    return None if parsed is None else parsed.canonical


destination = Kind(
    _read_destination,
    {
        "type": "string",
        "minLength": 1,
        "description": "host:port, *.host:port, IP, CIDR, [v6]:port, *, public or private; "
        ":443 when no port is given, :* for all, :8000-8100; TCP unless it ends in /udp.",
    },
)


def _read_program(value: Any, place: Place) -> str | None:
    text = read_text(value, place)
    if text is None:
        return None
    if "/" in text or text.startswith("~"):
        return _read_path(text, place)
    if "?" in text:
        return place.fault("has no ? wildcard", value, spelled(text.replace("?", "*")))
    if text in (".", ".."):
        return place.fault("is a folder, not a program", value)
    head, *rest = text.split()
    if rest or head != text:
        rules = {"args": {head: {"allow": [" ".join(rest) + " *"]}}} if rest else {}
        hint = f"{spelled(head)}" + (f" with {spelled(rules)[2:-2]}" if rest else "")
        return place.fault("is a program name, without arguments", value, hint)
    return text


program = Kind(
    _read_program,
    {
        "type": "string",
        "pattern": r"^[^\s/?\u0000-\u001f]+$|^([^*?\u0000-\u001f]|\\[*?])*[/~]"
        r"([^*?\u0000-\u001f]|\\[*?])*$",
        "description": "A program name (* matches anything) or a path to one. " + _PATH_NOTE,
    },
    lambda name: _escape(name) if "/" in name else name,
)


def _read_resolver(value: Any, place: Place) -> str | None:
    text = read_text(value, place)
    if text is None:
        return None
    try:
        if "%" not in text:
            return str(ipaddress.ip_address(text))
    except ValueError:
        pass
    return place.fault("must be the address of a DNS server", value, '"9.9.9.9"')


resolver = Kind(
    _read_resolver,
    {"type": "string", "anyOf": [{"format": "ipv4"}, {"format": "ipv6"}]},
)


def _read_proxy(value: Any, place: Place) -> str | None:
    text = read_text(value, place)
    if text is None:
        return None
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good or parts.path not in ("", "/") or parts.query or " " in text or "\\" in text:
        shown = without_credentials(text)
        return place.fault("must be the URL of a proxy", shown, '"http://proxy.example:3128"')
    return text


proxy = Kind(_read_proxy, {"type": "string", "pattern": r"^https?://[^\s/\\]+/?$"})
