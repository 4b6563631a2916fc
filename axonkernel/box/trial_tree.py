"""Run by the probe in a process of its own: make a small file tree, as each box has one.

Ends with 0, or prints what the kernel said: ``unshare`` first where there is no namespace.
"""

from __future__ import annotations

import sys

from axonkernel.box.model import Mount
from axonkernel.box.steps import steps
from axonkernel.box.tree import make, place
from axonkernel.errors import BoxError

_MOUNTS = (Mount("ro-bind", "/usr", "/usr"), Mount("dev", "/dev"), Mount("remount-ro", "/"))


def _main() -> int:
    parts = steps(_MOUNTS).tree
    try:
        make(parts, place(parts), None)
    except (BoxError, OSError) as error:
        print(error)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(_main())
