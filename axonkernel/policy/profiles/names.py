"""Files named in values and operands, where those are not just a path."""

from __future__ import annotations

import re

from axonkernel.policy.profiles.found import UNKNOWN

__all__ = ["below", "known_folder", "named_file"]

_AWK_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=", re.DOTALL)


def known_folder(path: str) -> str | None:
    """The folder that all files lie in which a pattern such as ``src/*.py`` stands for."""
    path = path.replace(UNKNOWN, "")
    if any(mark in path for mark in "$`{<(~!"):
        return None
    start = min(at for at in (*map(path.find, "*?["), len(path)) if at >= 0)
    return path[: path.rfind("/", 0, start) + 1] or "."


def below(base: str, path: str) -> str:
    return path if path.startswith("/") or not base else f"{base}/{path}"


def named_file(role: str, value: str) -> str | None:
    """The file in a value that is not always one."""
    if role == "at":
        return value[1:] if value.startswith("@") else None
    if role == "form":
        content = value.partition("=")[2]
        return content[1:].partition(";")[0] if content[:1] in ("@", "<") else None
    if role == "url":
        return _file_url(value)
    if role in ("local-read", "local-write"):
        colon, slash = value.find(":"), value.find("/")
        return value if colon < 0 or -1 < slash < colon else None
    if role == "outside-read":
        leaves = value.startswith("/") or ".." in value.split("/")
        return value if leaves else None
    if role == "assigned-read":
        return None if _AWK_ASSIGNMENT.match(value) else value
    return None


def _file_url(value: str) -> str | None:
    scheme, colon, rest = value.partition(":")
    if not colon or scheme.lower() != "file":
        return None
    if rest.startswith("//"):
        rest = "/" + rest[2:].partition("/")[2]
    return rest
