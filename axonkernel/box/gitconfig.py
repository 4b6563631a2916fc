"""Who one is to git: the name and address of a user's git configuration, and nothing else of it.

The rest of that configuration names programs, keys and credentials. Touches the file system,
reads only; git itself is not asked, which would run what the configuration names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

__all__ = ["identity", "sources", "value_of"]

_MOST_BYTES = 1 << 20
_SECTION = re.compile(r"\s*\[\s*([A-Za-z0-9.-]+)\s*\]\s*(.*)")
_KEY = re.compile(r"\s*(name|email)\s*=\s*(.*)", re.IGNORECASE)
#: A piece of a value: quoted, escaped, the beginning of a comment, or anything else.
_PIECE = re.compile(r'"((?:[^"\\]|\\.)*)"|\\(.)|([#;].*)|([^"\\#;]+)')
_ESCAPED = {"n": "\n", "t": "\t", "b": "\b"}


def sources(home: str) -> tuple[str, ...]:
    """Where git looks for what holds for all of a user's repositories; the last one counts."""
    return "/etc/gitconfig", f"{home}/.config/git/config", f"{home}/.gitconfig"


def identity(paths: Iterable[str]) -> str:
    """A git configuration with the name and address found in ``paths``; "" without either."""
    found: dict[str, str] = {}
    for path in paths:
        found.update(_user(_text(path)))
    quoted = {name: value.replace("\\", "\\\\").replace('"', '\\"')
              for name, value in found.items() if value.isprintable()}  # fmt: skip
    lines = [f'\t{name} = "{value}"\n' for name, value in sorted(quoted.items())]
    return f"[user]\n{''.join(lines)}" if lines else ""


def _text(path: str) -> str:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read(_MOST_BYTES)
    except OSError:
        return ""


def _user(text: str) -> Iterator[tuple[str, str]]:
    """The (key, value) pairs of the sections ``user``."""
    section = ""
    for line in text.replace("\\\n", "").splitlines():
        if match := _SECTION.match(line):
            section, line = match[1].lower(), match[2]
        elif line.lstrip().startswith("["):
            section = ""
        if section == "user" and (match := _KEY.match(line)):
            yield match[1].lower(), value_of(match[2])


def value_of(text: str) -> str:
    """A value as git reads it: without quotes, escapes and comments."""
    value = ""
    for quoted, escaped, comment, plain in _PIECE.findall(text):
        if comment:
            break
        if escaped:
            value += _ESCAPED.get(escaped, escaped)
        elif plain:
            value += plain
        else:
            value += re.sub(r"\\(.)", lambda each: _ESCAPED.get(each[1], each[1]), quoted)
    return value.strip()
