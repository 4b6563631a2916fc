"""What is taken out of grants again, and what has to be held while a box runs (pure).

The mounts are how a box starts; the watch is the same as names, for the keeper: a mount lies on
what the host had at a name, and the host may put something else there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from axonkernel.box.host import Host
from axonkernel.box.model import Kept, Mount, Watch
from axonkernel.box.names import SYSTEM, Absent, Entry
from axonkernel.box.steps import between
from axonkernel.policy.globs import is_glob, unescape
from axonkernel.policy.model import FsPolicy, Policy
from axonkernel.policy.protect import DEFAULT_PROTECT

__all__ = ["brings", "lies_in", "mask", "protections", "watch", "within"]

#: Private in every box, so that no file of the host's is to be seen or hidden there.
_SCRATCH = ("/run", "/tmp", "/var/tmp", "/dev", "/proc")


def protections(fs: FsPolicy, host: Host) -> Iterator[Mount]:
    """Read-only inside write grants; their folders are pinned, or a rename would undo it.

    So are those of denied names that are no pattern: moved with its folder, such a file would
    not be denied in the next box. One that a pattern denies is, wherever it goes.
    """
    for ancestor in _above_denied(fs, host):
        yield Mount("bind", ancestor, ancestor)
    for entry, grant in _protected(fs.write, host):
        for ancestor in between(grant, entry.path):
            yield Mount("bind", ancestor, ancestor)
        yield Mount("ro-bind", entry.path, entry.path)


def mask(entry: Entry) -> Mount:
    """What lies over a name that must not be read."""
    return Mount("mask-dir" if entry.kind == "dir" else "mask-file", entry.path)


def watch(policy: Policy, host: Host) -> Watch | None:
    """What the host may undo in a box for ``policy``; None when there is nothing."""
    fs = policy.fs
    if fs is None:
        return None
    grants = tuple((path, path in fs.write) for path in dict.fromkeys((*fs.read, *fs.write)))
    denied = tuple(filter(is_glob, fs.deny))
    wall = policy.net is not None and policy.net.unix == "box"
    found = Watch(
        grants,
        tuple(_kept(fs, host)),
        denied,
        tuple(filter(is_glob, DEFAULT_PROTECT if fs.protect is None else fs.protect)),
        wall and any(path != "/" and not lies_in(path, SYSTEM) for path, _ in grants),
    )
    return found if found.kept or found.denied or found.sockets else None


def _kept(fs: FsPolicy, host: Host) -> list[Kept]:
    held = {unescape(pattern) for pattern in (*fs.deny, *(fs.protect or ()))}
    kept: dict[str, Kept] = {}
    for item in _items(fs, host, held):
        before = kept.get(item.path)
        # A mask says more than a protection, and either more than a pin.
        if before is None or _WEIGHT[item.how] > _WEIGHT[before.how]:
            kept[item.path] = item
    return sorted(kept.values(), key=lambda item: (item.path.count("/"), item.path))


_WEIGHT = {"pin": 0, "read-only": 1, "mask": 2}


def _items(fs: FsPolicy, host: Host, held: set[str]) -> Iterator[Kept]:
    granted = (*fs.read, *fs.write)
    for entry in (*host.denied, *host.hidden, *host.sockets):
        if entry.link and _is_inside(entry.link, granted):
            yield Kept(entry.link, "mask")
        if entry.kind != "missing" and _is_inside(entry.path, granted):
            stub = entry.path in held and _is_written(entry.path, fs)
            yield Kept(entry.path, "mask", "", stub, entry.kind == "dir")
    for entry in host.protected:
        if entry.link and _is_inside(entry.link, fs.write):
            yield from _link(entry, granted)
    yield from (Kept(path, "pin") for path in _above_denied(fs, host))
    for entry, grant in _protected(fs.write, host):
        yield from (Kept(path, "pin") for path in between(grant, entry.path))
        folder = entry.kind == "dir"
        stub = entry.path in held or _is_of_git(entry.path)
        yield Kept(entry.path, "read-only", "", stub, folder, 0o755 if folder else 0o444)
    for path in fs.read:
        if _is_inside(path, fs.write):
            yield Kept(path, "read-only")
    for name in host.absent:
        yield from _absent(name, fs)


def _above_denied(fs: FsPolicy, host: Host) -> Iterator[str]:
    """The folders between a write grant and a denied name that is there and no pattern."""
    named = {unescape(pattern) for pattern in fs.deny if not is_glob(pattern)}
    for entry in host.denied:
        if entry.kind != "missing" and entry.path in named and _is_written(entry.path, fs):
            grants = (grant for grant in fs.write if _is_inside(entry.path, (grant,)))
            yield from between(max(grants, key=len), entry.path)


def _link(entry: Entry, granted: tuple[str, ...]) -> Iterator[Kept]:
    """A protected name that is a link: what it leads to is there, and the name is not to be
    turned elsewhere."""
    grant = next(path for path in granted if _is_inside(entry.link, (path,)))
    yield from (Kept(path, "pin") for path in between(grant, entry.link))
    if entry.kind != "missing" and any(brings(path, entry.path) for path in granted):
        yield Kept(entry.link, "read-only", entry.path)
    else:
        yield Kept(entry.link, "mask")


def _absent(name: Absent, fs: FsPolicy) -> Iterator[Kept]:
    grant = max((path for path in fs.write if _is_inside(name.path, (path,))), key=len)
    for path in between(grant, name.path):
        yield Kept(path, "pin", "", path in name.above, True, 0o755)
    how: Literal["mask", "read-only"] = "read-only" if name.mode else "mask"
    yield Kept(name.path, how, "", True, name.kind == "dir", name.mode, name.text)


def _is_of_git(path: str) -> bool:
    """Whether git runs programs by what lies there, in a repository that is there."""
    return "/.git/" in path and path.rpartition("/")[2] in ("config", "hooks", "commondir")


def _protected(writes: tuple[str, ...], host: Host) -> Iterator[tuple[Entry, str]]:
    """What is protected, with the write grant it lies in."""
    for entry in host.protected:
        grant = next((path for path in writes if brings(path, entry.path)), None)
        if grant is not None and entry.kind != "missing" and entry.path != grant:
            yield entry, grant


def _is_written(path: str, fs: FsPolicy) -> bool:
    around = [grant for grant in (*fs.read, *fs.write) if _is_inside(path, (grant,))]
    return bool(around) and max(around, key=len) in fs.write


def _is_inside(path: str, grants: Iterable[str]) -> bool:
    """Whether a grant of a folder brings ``path``, and is not ``path`` itself."""
    return any(path != grant and brings(grant, path) for grant in grants)


def within(path: str, folder: str) -> bool:
    """Whether ``path`` is ``folder`` or lies below it."""
    return path == folder or folder == "/" or path.startswith(folder + "/")


def brings(grant: str, path: str) -> bool:
    """Whether a grant makes ``path`` be there: none of a folder above brings scratch space."""
    return within(path, grant) and not any(
        within(path, scratch) and not within(grant, scratch) for scratch in _SCRATCH
    )


def lies_in(path: str, folders: Iterable[str]) -> bool:
    """Whether ``path`` is one of ``folders`` or lies below one."""
    return any(within(path, folder) for folder in folders)
