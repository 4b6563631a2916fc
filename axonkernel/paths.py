"""Paths as the system has them: symlinks resolved, before any rule is asked about them.

The policy itself is parsed without touching the system; what depends on the disk is here.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from attrs import evolve

from axonkernel.errors import Fault, PolicyError
from axonkernel.policy.globs import is_glob
from axonkernel.policy.model import FsPolicy, Policy
from axonkernel.policy.protect import DEFAULT_PROTECT
from axonkernel.policy.wellformed import unencodable

__all__ = [
    "canonical_policy",
    "default_protect",
    "linked_grants",
    "loaded_files",
    "resolve",
    "resolve_entry",
    "within",
]

_MOST_TRIES = 10
#: Names that are looked at when the links of one path are followed.
_MOST_PARTS = 4096
#: Links that the system itself follows in one path.
_MOST_LINKS = 40
#: The owner that a user namespace shows for everybody it does not know, such as root outside.
_UNKNOWN_UID = 65534
_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def resolve(path: str, cwd: str = "/") -> str:
    """``path`` as an absolute path without symlinks; the leaf need not exist.

    A path that no system call takes (a NUL byte, half a character) is joined and returned as
    it is: ``decide`` refuses it.

    Arguments:
        path: absolute, or relative to ``cwd``. ``~`` is an ordinary character here.
        cwd: absolute folder that a relative path counts from.
    """
    joined = os.path.join(cwd, path)
    if "\0" in joined or unencodable(joined):
        return joined
    return _real(joined)


def resolve_entry(path: str, cwd: str = "/") -> str:
    """Like :func:`resolve`, but a symlink in the last place is itself meant, not its target."""
    joined = os.path.join(cwd, path)
    folder, name = os.path.split(joined.rstrip("/") or "/")
    if "\0" in joined or unencodable(joined) or name in ("", ".", ".."):
        return resolve(joined)
    return os.path.join(_real(folder), name)


def _real(path: str) -> str:
    """``os.path.realpath``, which fails where a link is replaced at the wrong moment.

    Who keeps replacing it gets the path as spelled: it is judged like that, and what opens
    it follows no link.
    """
    for _ in range(_MOST_TRIES):
        try:
            return os.path.realpath(path)
        except OSError:
            continue
    return os.path.normpath(path)


def canonical_policy(policy: Policy) -> Policy:
    """``policy`` with the symlinks in its path grants resolved, as requests will be.

    A denied or protected path keeps its own spelling as well, so that it still holds when
    the symlink is replaced later. Patterns have the part before their first wildcard
    resolved.

    Raises PolicyError for a grant that runs through a link inside a write grant, which the
    agent could have made lead anywhere, or through a link of another user's, who would be
    given what only this user may have. What root may have is everything: for it, a link that
    others could have moved or replaced is theirs as well.
    """
    if policy.fs is None:
        return policy
    fs = policy.fs
    # Once: a box that runs may exchange a folder and a link between two looks at it.
    followed = {path: _followed(path) for path in (*fs.read, *fs.write, *fs.unsafe)}
    _refuse_others(fs, followed)
    return evolve(
        policy,
        fs=evolve(
            fs,
            read=_unique(followed[path].real for path in fs.read),
            write=_unique(followed[path].real for path in fs.write),
            deny=_with_resolved(fs.deny),
            protect=None if fs.protect is None else _with_resolved(fs.protect),
            unsafe=_unique(each for path in fs.unsafe for each in (path, followed[path].real)),
        ),
    )


def linked_grants(policy: Policy) -> tuple[str, ...]:
    """A line for each grant that is a link, or lies behind one, naming what is granted."""
    fs = policy.fs
    if fs is None:
        return ()
    return tuple(
        f"fs.{kind}: {path} is a link; what it leads to is granted: {_shown(found.real)}"
        for kind, paths in (("read", fs.read), ("write", fs.write))
        for path in paths
        if (found := _followed(path)).links
    )


def _refuse_others(fs: FsPolicy, followed: Mapping[str, _Followed]) -> None:
    faults = []
    for kind, paths in (("read", fs.read), ("write", fs.write), ("unsafe", fs.unsafe)):
        for index, path in enumerate(paths):
            found = followed[path]
            others = [followed[each].real for each in fs.write if each != path]
            if within(found.links, others):
                message = "runs through a link that the agent can replace"
            elif found.strange:
                message = f"runs through a link of somebody else's: {found.strange}"
            else:
                continue
            hint = f"grant what it leads to, if you mean it: {_shown(found.real)}"
            faults.append(Fault(f"$.fs.{kind}[{index}]", message, path, hint))
    if faults:
        raise PolicyError(faults)


def _shown(path: str) -> str:
    """A path that a link names is text of whoever made the link."""
    return path if path.isprintable() else ascii(path)


class _Followed(NamedTuple):
    """Where a path leads, the links on the way, each in its real folder, and what makes the
    first of them somebody else's; "" where that is none."""

    real: str
    links: tuple[str, ...]
    strange: str = ""


def _followed(path: str) -> _Followed:
    """Follow the links of an absolute path, looking at each name once.

    What is missing, and what turns in a circle, is taken as it is spelled.
    """
    done, waiting = "/", path.split("/")
    links: list[str] = []
    strange = ""
    for _ in range(_MOST_PARTS):
        if not waiting:
            return _Followed(done, tuple(links), strange)
        part = waiting.pop(0)
        if part in ("", "."):
            continue
        if part == "..":
            done = os.path.dirname(done)
            continue
        here = os.path.join(done, part)
        link = _link(here)
        if link is None:
            done = here
            continue
        links.append(here)
        strange = strange or _strange(here, link.owner)
        if len(links) <= _MOST_LINKS:
            waiting = [*link.target.split("/"), *waiting]
            done = "/" if link.target.startswith("/") else done
        else:
            done = here
    return _Followed(os.path.join(done, *waiting), tuple(links), strange)


class _Link(NamedTuple):
    target: str
    owner: int


def _link(path: str) -> _Link | None:
    """The link at ``path``; None where there is none, or another one a moment later: it is
    the owner of the link that was read which counts."""
    try:
        before = os.lstat(path)
        if not stat.S_ISLNK(before.st_mode):
            return None
        target = os.readlink(path)
        after = os.lstat(path)
    except OSError:
        return None
    same = (before.st_dev, before.st_ino, before.st_ctime_ns, before.st_uid) == (
        after.st_dev, after.st_ino, after.st_ctime_ns, after.st_uid
    )  # fmt: skip
    return _Link(target, before.st_uid) if same else None


def _strange(link: str, owner: int) -> str:
    """What makes a link somebody else's than root's and this user's; "" when nothing does."""
    trusted = {0, os.geteuid(), *_unknown_uids()}
    if owner not in trusted:
        return f"{_shown(link)} belongs to uid {owner}"
    if os.geteuid() != 0:
        return ""
    folder = link
    while folder != "/":
        folder = os.path.dirname(folder)
        try:
            found = os.lstat(folder)
        except OSError as error:
            return f"{_shown(link)} lies in {_shown(folder)}: {error.strerror}"
        if found.st_uid not in trusted:
            return f"{_shown(link)} lies in {_shown(folder)}, which belongs to uid {found.st_uid}"
        others = stat.S_IWOTH if found.st_gid == 0 else _WRITABLE_BY_OTHERS
        # In a sticky folder nobody replaces what is root's.
        if found.st_mode & others and not found.st_mode & stat.S_ISVTX:
            return f"{_shown(link)} lies in {_shown(folder)}, which others than root may write"
    return ""


def _unknown_uids() -> tuple[int, ...]:
    """The owner of whatever lies outside this user namespace, where it can be no user's here:
    the system's own links have it in a box."""
    try:
        with open("/proc/self/uid_map", encoding="ascii") as file:
            ranges = [line.split() for line in file]
    except OSError:
        return ()
    known = any(int(at) <= _UNKNOWN_UID < int(at) + int(size) for at, _, size in ranges)
    return () if known else (_UNKNOWN_UID,)


def default_protect(
    write: Iterable[str], *, entry: str | None = None, loaded: Iterable[str] = ()
) -> tuple[str, ...]:
    """What ``fs.protect`` means when it is not written: paths and patterns, absolute.

    Arguments:
        write: the write grants, absolute, symlinks resolved.
        entry: the agent's own file, or None.
        loaded: files that a process outside the box has loaded, such as
            :func:`loaded_files`; only those inside a grant count.
    """
    grants = tuple(write)
    files = [*loaded, *([entry] if entry else [])]
    return _unique([*DEFAULT_PROTECT, *within(map(os.path.realpath, files), grants)])


def within(paths: Iterable[str], grants: Iterable[str]) -> tuple[str, ...]:
    """Those of ``paths`` that are one of ``grants`` or lie below one; all absolute."""
    folders = [grant.rstrip("/") for grant in grants]
    return tuple(
        path
        for path in paths
        if any(path == folder or path.startswith(f"{folder}/") for folder in folders)
    )


def loaded_files() -> tuple[str, ...]:
    """What this process has imported: the folder of each package, the file of each module.

    Packages as a whole, since a box has one mount for each of these.
    """
    found = []
    for name, module in sys.modules.copy().items():  # another thread may import
        if "." not in name:
            folders = getattr(module, "__path__", None)
            found += list(folders) if folders else [getattr(module, "__file__", None)]
    return _unique(path for path in found if isinstance(path, str) and os.path.isabs(path))


def _with_resolved(paths: tuple[str, ...]) -> tuple[str, ...]:
    return _unique(spelling for path in paths for spelling in (path, _resolve_pattern(path)))


def _resolve_pattern(path: str) -> str:
    if not is_glob(path):
        return _real(path)
    parts = path.split("/")
    first = next(index for index, part in enumerate(parts) if "*" in part)
    literal = "/".join(parts[:first])
    if not literal:
        return path
    return "/".join([_real(literal).rstrip("/"), *parts[first:]])


def _unique(paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))
