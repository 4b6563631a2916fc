"""Rooms for confined programs: what they give up, with a private folder that is left to them.

The rules of a policy are built once for each room, with a folder in them that stands for /tmp
and HOME. A room that its program left as it was is the next program's.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable

from attrs import define, frozen

from axonkernel.process.zygote import Zygote

__all__ = ["Room", "Walls", "close", "empty", "make", "remove"]


@frozen(eq=False)
class Walls:
    """What a program gives up. The same for all that may share rooms.

    Arguments:
        rules: builds the Landlock rules (a descriptor) with a private folder in them, or with
            "" for none; None for no rules.
        private: it has a folder of its own, in place of /tmp and HOME.
        filter: the seccomp filter, raw BPF in base64; "" for none.
        run_as: (uid, gid) to become; None keeps this process's own.
        loose: it gives up nothing at all.
    """

    rules: Callable[[str], int] | None = None
    private: bool = False
    filter: str = ""
    run_as: tuple[int, int] | None = None
    loose: bool = False


@define
class Room:
    """Rules, and a private folder in them.

    Arguments:
        rules: a descriptor; -1 for none.
        folder: empty until a program is in the room; "" for none.
    """

    walls: Walls
    rules: int
    folder: str


def make(walls: Walls, zygote: Zygote) -> Room:
    """A new room; the zygote removes its folder should this process be killed.

    Raises OSError where there is no Landlock.
    """
    if not walls.private:
        return Room(walls, -1 if walls.rules is None else walls.rules(""), "")
    import tempfile  # most kernels start no program

    folder = tempfile.mkdtemp(prefix="axonkernel-")
    try:
        zygote.made(folder)
        if walls.run_as is not None:
            os.chown(folder, *walls.run_as)
        return Room(walls, -1 if walls.rules is None else walls.rules(folder), folder)
    except BaseException:
        _remove(folder)
        raise


def close(room: Room) -> None:
    """Let go of its rules; its folder stays."""
    rules, room.rules = room.rules, -1
    if rules >= 0:
        os.close(rules)


def remove(room: Room, zygote: Zygote) -> None:
    """Take a room away with all that was left in it."""
    close(room)
    if room.folder:
        _remove(room.folder)
        zygote.gone(room.folder)


def empty(room: Room) -> bool:
    """Take away what a program left in its folder; whether the room is as new then."""
    if not room.folder:
        return True
    try:
        with os.scandir(room.folder) as entries:
            left = list(entries)
        for entry in left:
            if entry.is_dir(follow_symlinks=False):
                _remove(entry.path, strictly=True)
            else:
                os.unlink(entry.path)
        found = os.stat(room.folder, follow_symlinks=False)
        return stat.S_IMODE(found.st_mode) == 0o700 and not os.listxattr(room.folder)
    except OSError:
        return False


def _remove(folder: str, *, strictly: bool = False) -> None:
    from shutil import rmtree  # with every way of packing files

    rmtree(folder, ignore_errors=not strictly)
