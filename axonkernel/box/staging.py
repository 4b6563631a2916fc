"""Mounts below a granted folder, made where nobody else can reach and then moved into place.

bwrap finds the place of a mount by its path, follows links in it and makes what is missing
there. Below a folder that another box may write, such a path can be turned into a link at any
moment, and what bwrap makes would be made anywhere on the host. So these mounts are made in
the box's own scratch space; the warden, in the box's mount namespace, moves each to its place
through a descriptor that no link was followed for. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
from typing import NamedTuple

from axonkernel.box.linux import (
    bind_to,
    enter_mount_namespace,
    move_mount,
    open_tree,
    open_without_links,
    unmount,
)
from axonkernel.box.model import Mount
from axonkernel.errors import BoxError

__all__ = ["Move", "settle", "staged"]

#: Nobody but the system's administrator changes names below these.
_SYSTEM = ("/usr", "/etc", "/sys", "/proc", "/dev")
#: The box's own scratch space, unless a grant is in its place.
_SCRATCH = ("/run", "/tmp")
_WAITING = ("bind", "ro-bind", "tmpfs", "mask-file", "mask-dir")


class Move(NamedTuple):
    """What is made at ``stage`` and belongs at ``dest``: a mount, or a file to bind there."""

    stage: str
    dest: str
    bind: bool = False


class _Made(NamedTuple):
    kind: str
    dest: str
    at: str


def staged(mounts: tuple[Mount, ...], cwd: str) -> tuple[tuple[Mount, ...], tuple[Move, ...]]:
    """The mounts as bwrap makes them, and the moves that put the rest in place, in order.

    Arguments:
        mounts: a plan's, in order: what lies in another comes after it.
        cwd: the working directory in the box; bwrap enters it before the moves, so the
            mounts it lies in are made in place.
    """
    scratch = {mount.dest for mount in mounts if mount.kind == "tmpfs"}
    stage = next((f"{path}/.axonkernel" for path in _SCRATCH if path in scratch), "")
    if not stage:
        return mounts, ()
    made: dict[str, _Made] = {}
    moves: list[Move] = []
    kept: list[Mount] = []
    for mount in mounts:
        at = mount.dest
        if mount.kind == "remount-ro":
            at = made[at].at if at in made else at
        else:
            around = _around(mount.dest, made)
            if _is_open(around) and _can_wait(mount, cwd):
                at = f"{stage}/{len(moves)}"
                moves.append(Move(at, mount.dest, mount.kind == "mask-file"))
            elif around is not None:
                at = around.at.rstrip("/") + mount.dest[len(around.dest.rstrip("/")) :]
            made[mount.dest] = _Made(mount.kind, mount.dest, at)
        if moves and at == moves[0].stage and mount.kind != "remount-ro":
            kept.append(Mount("tmpfs", stage, mode=0o700))
        if moves and at == moves[-1].stage and moves[-1].bind:
            # bwrap mounts a file without a name, which the kernel does not move.
            mount = Mount("data", at, mode=0)
        kept.append(mount._replace(dest=at))
    if moves:
        kept.append(Mount("remount-ro", stage))
    return tuple(kept), tuple(moves)


def _around(path: str, made: dict[str, _Made]) -> _Made | None:
    """The innermost mount that ``path`` lies in."""
    while path != "/":
        path = posixpath.dirname(path)
        if path in made:
            return made[path]
    return None


def _is_open(around: _Made | None) -> bool:
    """Whether a place lies in a folder of the host that others may write.

    A grant of / is no such folder: who has it needs no race.
    """
    if around is None or around.kind not in ("bind", "ro-bind") or around.dest == "/":
        return False
    return not any(_lies_in(around.dest, top) for top in _SYSTEM)


def _can_wait(mount: Mount, cwd: str) -> bool:
    if mount.kind not in _WAITING or _lies_in(cwd, mount.dest):
        return False
    return mount.source in ("", mount.dest)  # else its place is a link of the host's


def _lies_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def settle(pid: int, moves: tuple[Move, ...]) -> None:
    """Put the mounts of the box of ``pid`` in place: all of them, or BoxError.

    A child does it, because who enters a mount namespace has left the one before.
    """
    if not moves:
        return
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read)
        _settle_and_exit(pid, moves, write)
    os.close(write)
    with open(read, encoding="utf-8", errors="replace") as pipe:
        fault = pipe.read()
    os.waitpid(child, 0)
    if fault != "ok":
        raise BoxError("mounts", fault or "the mounts were not put in place")


def _settle_and_exit(pid: int, moves: tuple[Move, ...], answer: int) -> None:
    fault = "ok"
    try:
        enter_mount_namespace(pid)
        for move in moves:
            _put(move)
        stage = posixpath.dirname(moves[0].stage)
        unmount(stage)
        os.rmdir(stage)
    except BaseException as error:
        fault = str(error) or repr(error)
    with contextlib.suppress(OSError):
        os.write(answer, fault.encode("utf-8", "replace"))
    os._exit(0)


def _put(move: Move) -> None:
    try:
        place = open_without_links(move.dest)
        if move.bind:
            bind_to(move.stage, place)
        else:
            move_mount(open_tree(move.stage), place)
        os.close(place)
    except OSError as error:
        raise OSError(f"{move.dest} was replaced while the box was being made: {error}") from error
