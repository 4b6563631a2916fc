"""Which files that a command names are not in its box. Standard library only."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator

from axonkernel.box.model import BoxPlan, Mount

__all__ = ["ungranted"]


def ungranted(plan: BoxPlan, words: Iterable[str]) -> Iterator[str]:
    """The ``words`` that name something outside which will not be there inside.

    A folder counts only when it is written with a slash: many a plain word is one by chance.
    """
    mounts = [mount for mount in plan.mounts if mount.kind != "remount-ro"]
    for word in dict.fromkeys(words):
        if os.path.isfile(word) or ("/" in word and os.path.isdir(word)):
            places = {os.path.abspath(word), os.path.realpath(word)}
            if not any(_is_there(mounts, place) for place in places):
                yield word


def _is_there(mounts: list[Mount], place: str) -> bool:
    """Whether ``place`` exists in a tree of ``mounts``; of two at it the later one is seen."""
    there = False
    for mount in mounts:
        if _within(place, mount.dest):
            # What a mask covers was denied, not forgotten.
            there = mount.kind != "tmpfs" or mount.dest == place
        elif _within(mount.dest, place):
            there = True  # a folder on the way to what is granted
    return there


def _within(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
