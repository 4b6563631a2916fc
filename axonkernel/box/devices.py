"""The device nodes that ``box.devices`` stands for on this host. Touches /dev, reads only."""

from __future__ import annotations

import glob
import os
import stat
from collections.abc import Iterable, Iterator

__all__ = ["nodes"]

#: Nothing but these: other nodes of a family, such as /dev/nvram, are somebody else's.
_NODES = {
    "kvm": ("/dev/kvm",),
    "dri": ("/dev/dri/card[0-9]*", "/dev/dri/renderD[0-9]*"),
    "nvidia": (
        "/dev/nvidia[0-9]*",
        "/dev/nvidiactl",
        "/dev/nvidia-modeset",
        "/dev/nvidia-uvm",
        "/dev/nvidia-uvm-tools",
        "/dev/nvidia-caps/nvidia-cap[0-9]*",
    ),
}


def nodes(names: Iterable[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The nodes of these devices, and the names of devices that are not on this host."""
    found: list[str] = []
    missing: list[str] = []
    for name in names:
        there = list(_there(_NODES[name]))
        found += there
        missing += [] if there else [name]
    return tuple(found), tuple(missing)


def _there(patterns: Iterable[str]) -> Iterator[str]:
    """Character devices alone: a link would be followed on the host, a file is no device."""
    for pattern in patterns:
        for path in sorted(glob.glob(pattern)):
            if stat.S_ISCHR(os.lstat(path).st_mode):
                yield path
