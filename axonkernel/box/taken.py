"""What is taken out of the grants of a policy again, as it lies on this host.

Touches the file system, reads only.
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable, Iterator
from typing import Literal

from axonkernel.box import gitfiles
from axonkernel.box.names import Absent, Entry, absent, expand, named, other_names, sockets
from axonkernel.policy.globs import path_glob
from axonkernel.policy.model import FsPolicy, Policy
from axonkernel.policy.protect import (
    DEFAULT_PROTECT,
    GIT_CONFIG,
    GIT_FILE,
    GIT_HEAD,
    is_folder_name,
)

__all__ = ["absent_names", "denied_names", "host_sockets", "protected_names"]


def denied_names(fs: FsPolicy) -> Iterator[Entry]:
    """What fs.deny stands for, also by other hard links."""
    denied = tuple(expand(fs.deny, (*fs.read, *fs.write)))
    yield from denied
    yield from other_names(denied, (*fs.read, *fs.write))


def protected_names(fs: FsPolicy) -> Iterator[Entry]:
    """What fs.protect stands for inside write grants, also by other hard links."""
    found = tuple(_protected(fs))
    yield from found
    kept = {entry.path for entry in found}
    for entry in other_names(found, fs.write, inside=True):
        if not _is_below(entry.path, kept):
            yield entry


def _protected(fs: FsPolicy) -> Iterator[Entry]:
    patterns = _protect(fs)
    files = (GIT_FILE,) if patterns and GIT_FILE not in patterns else ()
    heads = (GIT_HEAD,) if GIT_CONFIG in patterns and GIT_HEAD not in patterns else ()
    found: dict[str, str | None] = dict(_around(fs.write)) if heads else {}
    for entry in expand((*patterns, *files, *heads), fs.write):
        path = entry.link or entry.path
        folder, name = posixpath.split(path)
        if heads and name == "HEAD":
            if gitfiles.is_repository(folder):
                found.setdefault(folder, None)
            if not any(path_glob(pattern)(path) for pattern in patterns):
                continue
        if heads and name == ".git":
            found[gitfiles.repository_of(path)] = folder
        if not (files and entry.kind == "dir" and entry.path.endswith("/.git")):
            yield entry
    found.pop("", None)
    more = {path for item in found.items() for path in gitfiles.runs_by(*item)}
    for path in sorted(more):
        if _is_written(path, fs) or _is_written(os.path.realpath(path), fs):
            yield named(path)


def _around(grants: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The repositories in whose work trees grants lie."""
    for grant in grants:
        folder = grant
        while folder != "/":
            folder = posixpath.dirname(folder)
            if found := gitfiles.repository_of(posixpath.join(folder, ".git")):
                yield found, folder


def _is_below(path: str, folders: set[str]) -> bool:
    while path not in folders:
        path, child = posixpath.dirname(path), path
        if path == child:
            return False
    return True


def _protect(fs: FsPolicy) -> tuple[str, ...]:
    return DEFAULT_PROTECT if fs.protect is None else fs.protect


def absent_names(
    fs: FsPolicy, denied: Iterable[Entry], protected: Iterable[Entry]
) -> Iterator[Absent]:
    """What has to lie at names that a box could make and must not.

    Of the default list only the names by which a repository that is there runs programs: an
    empty file at every other would be in the way of people and programs outside.
    """
    held = [Absent(entry.path) for entry in denied if entry.kind == "missing"]
    for entry in protected:
        if entry.kind == "missing":
            kind: Literal["file", "dir"] = "dir" if is_folder_name(entry.path) else "file"
            held.append(Absent(entry.path, (), kind, 0o755 if kind == "dir" else 0o444))
        elif repository := _repository(entry.path):
            held += _git_names(repository, _protect(fs))
    for name in held:
        if _is_written(name.path, fs) and (found := absent(name)) is not None:
            yield found


def _repository(config: str) -> str:
    """The folder of the repository whose configuration lies at a path; "" for other files."""
    folder, name = posixpath.split(config)
    is_one = folder.endswith("/.git") or "/.git/modules/" in folder
    is_one = is_one or (name == "config" and gitfiles.is_repository(folder))
    return folder if name == "config" and is_one else ""


def _git_names(repository: str, patterns: tuple[str, ...]) -> Iterator[Absent]:
    """git dies of an empty ``commondir``; one that names its own folder changes nothing."""
    found = (
        Absent(f"{repository}/commondir", (), "file", 0o444, ".\n"),
        Absent(f"{repository}/hooks", (), "dir", 0o755),
    )
    tests = [path_glob(pattern) for pattern in patterns]
    other = GIT_CONFIG in patterns and "/.git/" not in f"{repository}/"
    return (name for name in found if other or any(matches(name.path) for matches in tests))


def _is_written(path: str, fs: FsPolicy) -> bool:
    """Whether the grant a path lies in, the innermost, is one to write."""
    around = [
        grant
        for grant in (*fs.read, *fs.write)
        if grant == "/" or path.startswith(f"{grant}/")
    ]  # fmt: skip
    return bool(around) and max(around, key=len) in fs.write


def host_sockets(policy: Policy) -> Iterator[Entry]:
    """Sockets count where the policy says what may be connected to."""
    fs, net = policy.fs, policy.net
    if fs is not None and net is not None and net.unix == "box":
        yield from sockets((*fs.read, *fs.write))
