"""The names below a grant: what patterns stand for, other hard links, sockets.

Touches the file system, reads only. Standard library, errors and the policy's pure modules.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import stat
from collections.abc import Callable, Iterable, Iterator

from axonkernel.errors import BoxError
from axonkernel.policy.globs import is_glob, path_glob, unescape
from axonkernel.typed import Literal, NamedTuple

__all__ = [
    "MAX_NAMES",
    "SYSTEM",
    "Absent",
    "Entry",
    "absent",
    "entry_of",
    "expand",
    "named",
    "other_names",
    "real",
    "sockets",
]

#: A glob in fs.deny or fs.protect is expanded over at most this many names.
MAX_NAMES = 1_000_000
#: Sockets are looked for among so many names before a box starts; the keeper goes on.
MAX_LOOKED_AT = 200_000
#: A grant of a folder above does not bring these: the box has its own.
_REPLACED = ("/dev", "/proc", "/run", "/sys", "/tmp", "/var/tmp")
#: Nobody but the system's administrator changes names below these.
SYSTEM = ("/usr", "/etc", "/sys", "/proc", "/dev")

Kind = Literal["file", "dir", "other", "missing"]
_Test = Callable[[str], bool]


class Entry(NamedTuple):
    """A path and what it is, links followed.

    Arguments:
        link: the name by which it was asked for, when that is a symlink; "" otherwise.
    """

    path: str
    kind: Kind
    link: str = ""


class Absent(NamedTuple):
    """A name that nothing in a box may make, and that does not exist.

    Arguments:
        above: the folders above it that do not exist either, outermost first.
        kind, mode, text: what has to lie there during a run.
    """

    path: str
    above: tuple[str, ...] = ()
    kind: Literal["file", "dir"] = "file"
    mode: int = 0
    text: str = ""


def entry_of(path: str) -> Entry:
    """What a path is now, links followed."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return Entry(path, "missing")
    if stat.S_ISDIR(mode):
        return Entry(path, "dir")
    return Entry(path, "file" if stat.S_ISREG(mode) else "other")


def absent(held: Absent) -> Absent | None:
    """A name to be held, with what is missing above it; None when something lies there."""
    if os.path.lexists(held.path):
        return None
    above: list[str] = []
    folder = posixpath.dirname(held.path)
    while not os.path.lexists(folder):
        above.insert(0, folder)
        folder = posixpath.dirname(folder)
    return held._replace(above=tuple(above))


def expand(patterns: tuple[str, ...], grants: Iterable[str]) -> Iterator[Entry]:
    """What deny and protect patterns stand for below the grants; missing literals too.

    Links are followed: a mount covers what a name stands for.
    """
    by_name: dict[str, list[_Test]] = {}
    others: list[_Test] = []
    for pattern in patterns:
        if not is_glob(pattern):
            yield named(unescape(pattern))
        elif is_glob(last := posixpath.basename(pattern)):
            others.append(path_glob(pattern))
        else:
            by_name.setdefault(unescape(last), []).append(path_glob(pattern))
    if not by_name and not others:
        return
    for path in _walk(grants):
        tests = (*by_name.get(posixpath.basename(path), ()), *others)
        if any(matches(path) for matches in tests):
            yield named(path)


def named(path: str) -> Entry:
    """What a name stands for, with the name itself where it is a link."""
    entry = entry_of(real(path))
    return entry._replace(link=_link(path)) if os.path.islink(path) else entry


def _link(path: str) -> str:
    """Where a link itself lies: the links above it followed, it not."""
    return posixpath.join(real(posixpath.dirname(path)), posixpath.basename(path))


def real(path: str) -> str:
    """Links followed. Raises BoxError when one is exchanged at this very moment."""
    try:
        return os.path.realpath(path)
    except OSError as error:
        raise BoxError("mounts", f"{path}: {error.strerror}") from error


def other_names(
    entries: Iterable[Entry], grants: Iterable[str], *, inside: bool = False
) -> Iterator[Entry]:
    """Other hard links of files among the grants: a mount covers one name only.

    Arguments:
        entries: the files.
        inside: also of the files in folders among them.
    """
    linked: set[tuple[int, int]] = set()
    for entry in entries:
        if entry.kind in ("file", "other"):
            linked |= _linked(entry.path)
        elif entry.kind == "dir" and inside:
            linked.update(*map(_linked, _walk((entry.path,))))
    for path in _walk(grants) if linked else ():
        with contextlib.suppress(OSError):  # it went away during the walk
            status = os.lstat(path)
            if (status.st_dev, status.st_ino) in linked:
                yield entry_of(path)


def _linked(path: str) -> set[tuple[int, int]]:
    """Which file lies at a path, when that has other names too."""
    with contextlib.suppress(OSError):  # it went away
        status = os.lstat(path)
        kind = stat.S_IFMT(status.st_mode)
        if status.st_nlink > 1 and kind not in (stat.S_IFDIR, stat.S_IFLNK):
            return {(status.st_dev, status.st_ino)}
    return set()


def sockets(grants: Iterable[str]) -> Iterator[Entry]:
    """The unix sockets below granted folders; one that is granted by its own name is not."""
    for path in _walk(_apart(grants), special=True):
        with contextlib.suppress(OSError):
            if stat.S_ISSOCK(os.lstat(path).st_mode):
                yield Entry(path, "other")


def _apart(grants: Iterable[str]) -> Iterator[str]:
    """The granted folders in which sockets come and go: not the system's own."""
    for grant in grants:
        if grant != "/" and not any(grant == top or grant.startswith(f"{top}/") for top in SYSTEM):
            yield grant


def _walk(grants: Iterable[str], *, special: bool = False) -> Iterator[str]:
    """Every name below the grants. Raises BoxError past MAX_NAMES: a pattern half expanded
    would leave the rest in reach. What a box replaces is left out.

    Arguments:
        special: only what is neither file nor folder nor link, no grant itself, and only
            among the first MAX_LOOKED_AT names.
    """
    count = 0
    for grant in dict.fromkeys(grants):
        if not special:
            yield grant
        waiting = [grant]
        while waiting:
            entries = _entries(waiting.pop())
            count += len(entries)
            if special and count > MAX_LOOKED_AT:
                return
            if count > MAX_NAMES:
                raise BoxError(
                    "mounts",
                    f"more than {MAX_NAMES} names below {grant}: the patterns of fs.deny and "
                    "fs.protect cannot be held there; grant folders further down",
                )
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    if entry.path in _REPLACED:
                        continue
                    waiting.append(entry.path)
                if not special or _is_special(entry):
                    yield entry.path


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []  # gone meanwhile, closed to us, or no folder at all


def _is_special(entry: os.DirEntry[str]) -> bool:
    follow = False
    return not (
        entry.is_dir(follow_symlinks=follow)
        or entry.is_file(follow_symlinks=follow)
        or entry.is_symlink()
    )
