"""What the processes of a box have open for writing, by the box's own /proc.

Standard library only; the caller is in the box's mount namespace.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

__all__ = ["is_open_to_write"]


def is_open_to_write(device: int, inode: int, *, folder: bool) -> bool:
    """Whether a process of the box holds a file open for writing, or has it mapped so; of a
    folder, whether one has it open at all or is in it."""
    file = (device, inode)
    return any(
        _has_descriptor(pid, file, folder=folder)
        or (_is_in(pid, file) if folder else _has_mapping(pid, inode))
        for pid in _processes()
    )


def _processes() -> Iterator[str]:
    return (name for name in os.listdir("/proc") if name.isdigit())


def _is_in(pid: str, folder: tuple[int, int]) -> bool:
    with contextlib.suppress(OSError):
        found = os.stat(f"/proc/{pid}/cwd")
        return (found.st_dev, found.st_ino) == folder
    return False


def _has_descriptor(pid: str, file: tuple[int, int], *, folder: bool) -> bool:
    with contextlib.suppress(OSError):
        for fd in os.listdir(f"/proc/{pid}/fd"):
            with contextlib.suppress(OSError):
                found = os.stat(f"/proc/{pid}/fd/{fd}")
                if (found.st_dev, found.st_ino) == file and (folder or _writes(pid, fd)):
                    return True
    return False


def _writes(pid: str, fd: str) -> bool:
    with open(f"/proc/{pid}/fdinfo/{fd}", encoding="ascii") as lines:
        flags = next(line.split()[1] for line in lines if line.startswith("flags:"))
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def _has_mapping(pid: str, inode: int) -> bool:
    with (
        contextlib.suppress(OSError),
        open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as lines,
    ):
        for line in lines:
            _, rights, _, _, number, *_ = line.split(maxsplit=5)
            if number == f"{inode}" and rights[1] == "w" and rights[3] == "s":
                return True
    return False
