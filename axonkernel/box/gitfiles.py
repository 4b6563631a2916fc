"""By what, beside the usual names, the git repositories of this host run programs.

Configuration includes files and names a folder of hooks; a repository may lie under any name:
bare, or where a ``.git`` file says. git itself is not asked, which would run what a
configuration names. Touches the file system, reads only.
"""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Iterable, Iterator

from axonkernel.box import gitconfig

__all__ = ["is_repository", "repository_of", "runs_by"]

_MOST_BYTES = 1 << 20
_MOST_FILES = 64
_SECTION = re.compile(r'\s*\[\s*([A-Za-z0-9.-]+)\s*(?:"(?:[^"\\]|\\.)*")?\s*\]\s*(.*)')
_KEY = re.compile(r"\s*(path|hookspath|worktree)\s*=\s*(.*)", re.IGNORECASE)
_WANTED = {("include", "path"), ("includeif", "path"), ("core", "hookspath"), ("core", "worktree")}
#: What is there of these decides what runs.
_OWN = ("config", "config.worktree", "commondir", "info/attributes", "gitdir")


def is_repository(folder: str) -> bool:
    """Whether git takes a folder for a repository's own, or for that of one of its work trees."""
    if not os.path.lexists(f"{folder}/HEAD"):
        return False
    if os.path.lexists(f"{folder}/commondir"):
        return True
    return os.path.isdir(f"{folder}/objects") and os.path.isdir(f"{folder}/refs")


def repository_of(dot_git: str) -> str:
    """The folder that a ``.git`` stands for; "" when it stands for none."""
    if os.path.isdir(dot_git):
        return dot_git
    text = _text(dot_git) or ""
    if not text.startswith("gitdir:"):
        return ""
    path = text[len("gitdir:") :].strip("\n").strip()
    return posixpath.normpath(posixpath.join(posixpath.dirname(dot_git), path))


def runs_by(folder: str, tree: str | None) -> Iterator[str]:
    """Paths by which git runs programs in a repository; some may not exist.

    Arguments:
        folder: the repository's own.
        tree: its work tree, where that is known from outside.
    """
    common = _common(folder)
    for place in dict.fromkeys((folder, common)):
        yield from (path for name in _OWN if os.path.lexists(path := f"{place}/{name}"))
    yield f"{common}/hooks"
    home = os.path.expanduser("~")
    own = (f"{common}/config", f"{folder}/config.worktree")
    found = list(_settings((*gitconfig.sources(home), *own)))
    trees = [posixpath.join(folder, value) for key, value, _ in found if key == "worktree"]
    root = tree or (trees[-1] if trees else folder)
    for key, value, config in found:
        if key == "path":
            yield _path(posixpath.dirname(config), value)
        elif key == "hookspath":
            yield _path(root, value)


def _common(folder: str) -> str:
    text = (_text(f"{folder}/commondir") or "").strip("\n")
    return posixpath.normpath(posixpath.join(folder, text)) if text else folder


def _settings(configs: Iterable[str]) -> Iterator[tuple[str, str, str]]:
    """(key, value, file) of what is wanted, in included files too, whatever their condition."""
    waiting = list(configs)
    seen: set[str] = set()
    while waiting and len(seen) < _MOST_FILES:
        config = waiting.pop(0)
        if config in seen:
            continue
        seen.add(config)
        # One that cannot be read, or is very large, is itself protected.
        for key, value in _pairs(_text(config) or ""):
            yield key, value, config
            if key == "path":
                waiting.append(_path(posixpath.dirname(config), value))


def _pairs(text: str) -> Iterator[tuple[str, str]]:
    section = ""
    for line in text.replace("\r\n", "\n").replace("\\\n", "").split("\n"):
        if match := _SECTION.match(line):
            section, line = match[1].lower(), match[2]
        elif line.lstrip().startswith("["):
            section = ""
        if match := _KEY.match(line):
            key, value = match[1].lower(), gitconfig.value_of(match[2])
            if (section, key) in _WANTED and value:
                yield key, value


def _path(folder: str, value: str) -> str:
    return posixpath.normpath(posixpath.join(folder, os.path.expanduser(value)))


def _text(path: str) -> str | None:
    """What a regular file holds; None when it cannot be read or is very large."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, encoding="utf-8", errors="surrogateescape", newline="") as file:
            text = file.read(_MOST_BYTES + 1)
    except (OSError, ValueError):
        return None
    return None if len(text) > _MOST_BYTES or "\0" in text else text
