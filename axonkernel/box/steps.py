"""A plan's mounts -> the steps that make the box's file tree (pure).

Each step says where its place comes from: made in a folder of the box's own, or looked up in
a folder of the host's, where nothing is ever made.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping

from axonkernel.box.model import Mount
from axonkernel.typed import NamedTuple

__all__ = ["Step", "Steps", "between", "steps"]

_ROOT = Mount("tmpfs", "/")
_BINDS = ("bind", "ro-bind")
#: What is no mount, but a name in whatever is mounted there.
_NAMES = ("symlink", "copy", "data", "dir", "remount-ro")
#: What bwrap alone can make; what lies in it comes after it.
_BY_BWRAP = ("proc",)
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "core": "/proc/kcore",
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
    "ptmx": "pts/ptmx",
}


class Step(NamedTuple):
    """One step of making the tree.

    Arguments:
        mount: what is made.
        base: the tmpfs of the box's own in which its place is made; "" where the place lies
            in a folder of the host's, and must be there.
    """

    mount: Mount
    base: str = ""


class Steps(NamedTuple):
    """A plan's mounts: those of the tree, in order, and those that are left to bwrap."""

    tree: tuple[Step, ...]
    bwrap: tuple[Mount, ...]


def steps(mounts: Iterable[Mount], terminal: str = "") -> Steps:
    """The steps that make ``mounts``, of which one inside another comes after it.

    Arguments:
        terminal: the device that standard output is; "" when it is none.
    """
    given = _at_real_places(tuple(part for m in mounts for part in _parts(m, terminal)))
    apart = tuple(mount.dest for mount in given if mount.kind in _BY_BWRAP)
    by_bwrap = tuple(mount for mount in given if _lies_in_one(mount.dest, apart))
    here = (mount for mount in given if mount not in by_bwrap)
    points = (Mount("dir", dest) for dest in apart)
    closed = not (given and given[0].dest == "/")
    root = (_ROOT,) if closed else ()
    return Steps(tuple(_based((*root, *_with(here, points)))), by_bwrap)


def _parts(mount: Mount, terminal: str) -> Iterator[Mount]:
    if mount.kind != "dev":
        yield mount
        return
    dev = mount.dest
    yield Mount("tmpfs", dev, noexec=mount.noexec)
    yield from (Mount("device", f"{dev}/{name}", f"/dev/{name}") for name in _DEVICES)
    yield from (Mount("symlink", f"{dev}/{name}", to) for name, to in _DEVICE_LINKS.items())
    yield Mount("dir", f"{dev}/shm")
    yield Mount("devpts", f"{dev}/pts")
    if terminal:
        yield Mount("device", f"{dev}/console", terminal)  # by which ttyname(3) finds it


def _with(mounts: Iterable[Mount], points: Iterable[Mount]) -> Iterator[Mount]:
    """The mounts, and the folders for bwrap's before anything becomes read-only."""
    later: list[Mount] = []
    for mount in mounts:
        if mount.kind == "remount-ro":
            later.append(mount)
        else:
            yield mount
    yield from points
    yield from later


def _based(mounts: Iterable[Mount]) -> Iterator[Step]:
    """Each mount with its base, after the folders on the way to it."""
    bases: dict[str, str] = {}
    there: set[tuple[str, str]] = set()
    for mount in mounts:
        if mount.kind == "remount-ro":
            yield Step(mount)
            continue
        base = _base(mount.dest, bases)
        if base:
            for folder in between(base, mount.dest):
                if (base, folder) not in there:
                    there.add((base, folder))
                    yield Step(Mount("dir", folder), base)
        if mount.kind == "dir" and (not base or (base, mount.dest) in there):
            continue
        if base:
            there.add((base, mount.dest))
        if mount.kind == "data-over" and base:
            mount = mount._replace(kind="data")
        yield Step(mount, base)
        if mount.kind not in _NAMES and mount.kind != "mask-file":
            bases[mount.dest] = mount.dest if mount.kind == "tmpfs" else ""


def _base(path: str, bases: dict[str, str]) -> str:
    """The base of what lies at ``path``: of the innermost mount around it."""
    while path:
        path = path.rpartition("/")[0]
        base = bases.get(path or "/")
        if base is not None:
            return base
    return ""


def between(folder: str, path: str) -> Iterator[str]:
    """The folders strictly between one and a path below it, outermost first."""
    names = path[len(folder.rstrip("/")) :].strip("/").split("/")[:-1]
    for count in range(1, len(names) + 1):
        yield posixpath.join(folder, *names[:count])


def _at_real_places(mounts: tuple[Mount, ...]) -> tuple[Mount, ...]:
    """No place is a link: what belongs at one is mounted where it leads.

    The link itself lies in a folder that is granted, or was made by a step, and leads there.
    """
    kinds = {mount.dest: mount.kind for mount in mounts}
    at_links = [mount for mount in mounts if _is_at_link(mount, kinds)]
    if not at_links:
        return mounts
    placed = [mount for mount in mounts if mount not in at_links]
    dests = set(kinds)
    for mount in at_links:
        if mount.source not in dests:
            dests.add(mount.source)
            placed.insert(_index(placed, mount.source), mount._replace(dest=mount.source))
    return tuple(placed)


def _is_at_link(mount: Mount, kinds: Mapping[str, str]) -> bool:
    if mount.kind not in _BINDS or mount.source == mount.dest:
        return False
    path = mount.dest
    while path != "/":
        path = posixpath.dirname(path)
        if kinds.get(path) == "symlink" or kinds.get(path) in _BINDS:
            return True
        if kinds.get(path) == "tmpfs":
            return False
    return False


def _index(mounts: list[Mount], dest: str) -> int:
    """Where a mount at ``dest`` comes: after all that is as deep, before all deeper."""
    depth = dest.count("/")
    for at, mount in enumerate(mounts):
        if mount.kind == "remount-ro" or (
            mount.kind not in _NAMES and mount.dest.count("/") > depth
        ):
            return at
    return len(mounts)


def _lies_in_one(path: str, folders: tuple[str, ...]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)
