"""The box's file tree, made before bwrap starts, which gets it as one recursive bind.

bwrap reads the whole list of mounts again for each one it makes, finds a place by its path
with links followed, and makes what is missing there, on the host if need be. Here each mount
costs the same however many there are, a place is looked up below the tree without following
a link, and only in a folder of the box's own is anything made. Sources are opened by this
process, before it becomes the box's user. Standard library only.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable

from axonkernel.box.linux import open_beneath, own_mount_namespace
from axonkernel.box.model import Mount
from axonkernel.box.mounts import (
    MOUNT_NODEV,
    MOUNT_NOEXEC,
    MOUNT_NOSUID,
    MOUNT_RDONLY,
    clone_tree,
    mount_setattr,
    move_mount,
    new_mount,
)
from axonkernel.box.steps import Step
from axonkernel.errors import BoxError

__all__ = ["make", "open_source", "place"]

#: Where a tree is put together: a folder of the host, covered in this process's namespace
#: alone. bwrap uses /tmp for itself.
_PLACES = ("/mnt", "/srv", "/media", "/opt", "/run", "/home", "/var/tmp")
_CLOSED = MOUNT_NOSUID | MOUNT_NODEV
_BINDS = ("bind", "ro-bind", "over", "device")
_BIND_ATTRIBUTES = {
    "bind": _CLOSED,
    "ro-bind": _CLOSED | MOUNT_RDONLY,
    "over": _CLOSED | MOUNT_RDONLY,
    "device": MOUNT_NOSUID | MOUNT_NOEXEC,
}
_TERMINALS = {"ptmxmode": "0666", "mode": "0620"}
_REPLACED = (errno.ELOOP, errno.ENOENT, errno.ENOTDIR, errno.EXDEV)


def place(steps: tuple[Step, ...]) -> str:
    """A folder of the host to make the tree at: one that no source lies in.

    Raises BoxError when there is none.
    """
    sources = [step.mount.source for step in steps if step.mount.kind in _BINDS]
    for path in _PLACES:
        inside = any(source == path or source.startswith(f"{path}/") for source in sources)
        if not inside and os.path.isdir(path) and not os.path.islink(path):
            return path
    raise BoxError("mounts", f"all of {', '.join(_PLACES)} are granted, or not there")


def make(
    steps: tuple[Step, ...], at: str, owner: tuple[int, int] | None, lent: tuple[int, ...] = ()
) -> None:
    """Leave the host's mount namespace and make the tree at ``at``.

    Arguments:
        at: see :func:`place`.
        owner: (uid, gid) of what is made, where that is not this process's.
        lent: mounts of another box, one for each ``lent`` step in the order of their places.

    Raises BoxError when a source or a place is not what was surveyed, OSError when this
    process can have no mount namespace.
    """
    umask = os.umask(0)
    try:
        own_mount_namespace()
        _Tree(at, owner, lent).make(steps)
    finally:
        os.umask(umask)


def open_source(path: str) -> int:
    """A descriptor of a mount's source. What was surveyed is what is mounted: a link put in
    its place meanwhile, by another box with the same grant, would lead anywhere.

    Raises BoxError when it is gone, or a link is there.
    """
    try:
        fd = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise BoxError("mounts", f"{path}: {error.strerror}") from error
    if os.readlink(f"/proc/self/fd/{fd}") != path or stat.S_ISLNK(os.fstat(fd).st_mode):
        os.close(fd)
        raise BoxError("mounts", f"{path} was replaced while the box was being made")
    return fd


class _Tree:
    """A tree being made.

    Attributes:
        own: descriptors of the box's own tmpfs, by their places in the box; / in any case.
        early: copies of what the tree itself will be a part of, by path.
        capped: the tmpfs that all folders with a size lie on; -1 before there is one.
        covers: descriptors of what lies over others (_cover).
    """

    def __init__(self, at: str, owner: tuple[int, int] | None, lent: tuple[int, ...] = ()) -> None:
        self.at = at
        self.lent = list(lent)
        self.owner = owner
        self.own: dict[str, int] = {}
        self.early: dict[str, int] = {}
        self.capped = -1
        self.covers: dict[tuple[str, int, str], int] = {}

    def make(self, steps: tuple[Step, ...]) -> None:
        for path in {step.mount.source for step in steps if step.mount.kind in _BINDS}:
            if self.at.startswith(path.rstrip("/") + "/"):
                self.early[path] = _copy_of(path)
        self._cap(max((step.mount.size_bytes for step in steps), default=0))
        self._make_covers(dict.fromkeys(filter(None, (_cover(step.mount) for step in steps))))
        root = steps[0].mount
        self.own["/"] = self._tmpfs(root) if root.kind == "tmpfs" else self._bind(root)
        if root.noexec:
            mount_setattr(self.own["/"], MOUNT_NOEXEC, recursive=True)
        self._put_at_place(self.own["/"])
        for step in steps[1:]:
            try:
                self._make(step)
            except OSError as error:
                raise BoxError("mounts", _said(step, error)) from error

    def _make(self, step: Step) -> None:
        mount = step.mount
        match mount.kind:
            case "dir":
                self._folder(step)
            case "symlink":
                os.symlink(mount.source, _name(step), dir_fd=self.own[step.base])
                self._give(step)
            case "copy":
                self._file(step, _content(mount.source))
            case "data":
                self._file(step, mount.data.encode("utf-8", "surrogateescape"))
            case "remount-ro":
                self._shut(mount.dest)
            case "tmpfs":
                self.own[mount.dest] = self._tmpfs(mount)
                self._put(self.own[mount.dest], step)
            case "lent":
                self._put(self.lent.pop(0), step)
            case "devpts":
                self._put(new_mount("devpts", _TERMINALS, MOUNT_NOSUID | MOUNT_NOEXEC), step)
            case _:
                cover = _cover(mount)
                fd = self._bind(mount) if cover is None else clone_tree(self.covers[cover])
                self._put(fd, step)
                os.close(fd)

    # -- mounts, still detached ---------------------------------------------------------

    def _bind(self, mount: Mount) -> int:
        """The source with all that is mounted below it, closed as the plan says."""
        fd = self.early[mount.source] if mount.source in self.early else _copy_of(mount.source)
        mount_setattr(fd, _BIND_ATTRIBUTES[mount.kind], recursive=True)
        return fd

    def _tmpfs(self, mount: Mount) -> int:
        if mount.size_bytes:
            return self._capped_folder(mount)
        options = {"mode": f"{mount.mode:o}"}
        if self.owner is not None:
            options |= {"uid": str(self.owner[0]), "gid": str(self.owner[1])}
        return new_mount("tmpfs", options, _CLOSED)

    def _cap(self, size_bytes: int) -> None:
        """One tmpfs for all folders with a size, so that together they hold no more."""
        if size_bytes:
            # Empty files take memory too: as many as there can be small ones.
            options = {"size": str(size_bytes), "nr_inodes": str(size_bytes // 2048 + 1024)}
            self.capped = new_mount("tmpfs", {"mode": "0755", **options}, _CLOSED)
            self._put_at_place(self.capped)  # below the tree, where no name leads to it

    def _capped_folder(self, mount: Mount) -> int:
        name = mount.dest.replace("/", "-")
        os.mkdir(name, mount.mode, dir_fd=self.capped)
        if self.owner is not None:
            os.chown(name, *self.owner, dir_fd=self.capped)
        folder = open_beneath(self.capped, name)
        try:
            return clone_tree(folder)
        finally:
            os.close(folder)

    def _make_covers(self, wanted: Iterable[tuple[str, int, str]]) -> None:
        """All on one tmpfs, which lies below the tree, where no name leads to it."""
        folder = new_mount("tmpfs", {"mode": "0755"}, _CLOSED)
        self._put_at_place(folder)  # what is not mounted cannot be copied
        for number, cover in enumerate(wanted):
            kind, mode, data = cover
            name = str(number)
            if kind == "dir":
                os.mkdir(name, mode, dir_fd=folder)
            else:
                _write(name, mode, data.encode("utf-8", "surrogateescape"), folder)
            if self.owner is not None:
                os.chown(name, *self.owner, dir_fd=folder)
            self.covers[cover] = open_beneath(folder, name)
        mount_setattr(folder, MOUNT_RDONLY)
        os.close(folder)

    # -- places -------------------------------------------------------------------------

    def _put_at_place(self, fd: int) -> None:
        place = os.open(self.at, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        move_mount(fd, place)
        os.close(place)

    def _put(self, fd: int, step: Step) -> None:
        """Mount onto a step's place, made first where it lies in a folder of our own."""
        if step.mount.noexec:
            mount_setattr(fd, MOUNT_NOEXEC, recursive=True)
        if step.base and stat.S_ISDIR(os.fstat(fd).st_mode):
            self._folder(step)
        elif step.base:
            self._file(step, b"")
        place = open_beneath(self.own[step.base or "/"], _name(step))
        try:
            move_mount(fd, place)
        finally:
            os.close(place)

    def _shut(self, dest: str) -> None:
        """Make what is mounted there read-only."""
        fd = self.own[dest] if dest in self.own else open_beneath(self.own["/"], dest)
        mount_setattr(fd, MOUNT_RDONLY)

    def _folder(self, step: Step) -> None:
        try:
            os.mkdir(_name(step), step.mount.mode, dir_fd=self.own[step.base])
        except FileExistsError:
            return
        self._give(step)

    def _file(self, step: Step, content: bytes) -> None:
        _write(_name(step), step.mount.mode, content, self.own[step.base])
        self._give(step)

    def _give(self, step: Step) -> None:
        """To the box's user."""
        if self.owner is not None:
            base = self.own[step.base]
            os.chown(_name(step), *self.owner, dir_fd=base, follow_symlinks=False)


def _cover(mount: Mount) -> tuple[str, int, str] | None:
    """What of a kind (``dir`` or ``file``), mode and content lies over others at a mount."""
    match mount.kind:
        case "mask-file":
            return "file", 0, ""
        case "mask-dir":
            return "dir", 0, ""
        case "data-over":
            return "file", mount.mode, mount.data
        case _:
            return None


def _copy_of(path: str) -> int:
    source = open_source(path)
    try:
        return clone_tree(source, recursive=True)
    finally:
        os.close(source)


def _name(step: Step) -> str:
    """The place of a step, from its base."""
    return step.mount.dest[len(step.base.rstrip("/")) :].lstrip("/")


def _content(path: str) -> bytes:
    """Of a file of the system's own; its links are followed."""
    with open(path, "rb", buffering=0) as file:
        return file.read()


def _write(name: str, mode: int, content: bytes, folder: int) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(name, flags, mode, dir_fd=folder)
    try:
        if content:
            os.write(fd, content)
    finally:
        os.close(fd)


def _said(step: Step, error: OSError) -> str:
    if not step.base and error.errno in _REPLACED:
        return f"{step.mount.dest} was replaced while the box was being made: {error}"
    return f"{step.mount.dest}: {error}"
