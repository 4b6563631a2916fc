"""Run by the probe in a process of its own: make a small file tree, as each box has one,
and lay over a name in it what a keeper does.

Ends with 0, or prints what the kernel said: ``unshare`` first where there is no namespace.
"""

from __future__ import annotations

import os
import sys

from axonkernel.box.inotify import Folders
from axonkernel.box.linux import look_up
from axonkernel.box.model import Mount
from axonkernel.box.mounts import is_mount, put
from axonkernel.box.overmount import EmptyFiles, empty_folder, same_again
from axonkernel.box.steps import steps
from axonkernel.box.tree import make, place
from axonkernel.errors import BoxError

_MOUNTS = (
    Mount("ro-bind", "/usr", "/usr"),
    Mount("dev", "/dev"),
    Mount("tmpfs", "/tmp"),
    Mount("data", "/file"),
    Mount("remount-ro", "/"),
)


def _main() -> int:
    parts = steps(_MOUNTS).tree
    try:
        at = place(parts)
        make(parts, at, None)
        _keep(at)
    except (BoxError, OSError) as error:
        print(error)
        return 1
    return 0


def _keep(at: str) -> None:
    folder = look_up(at)
    Folders().add(at, folder)
    files = EmptyFiles(f"{at}/tmp")
    put(files.another(), folder, "file")
    put(same_again(look_up("file", folder), read_only=True), folder, "file")
    put(empty_folder(), folder, "tmp")
    if not (is_mount(folder, "file") and is_mount(folder, "tmp")):
        raise OSError("what was mounted is not seen")
    os.close(folder)


if __name__ == "__main__":
    sys.exit(_main())
