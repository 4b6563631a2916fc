"""Which program asks: by its socket, which is open while it waits for the answer.

Standard library only.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import suppress

__all__ = ["Askers"]

#: Looking costs a millisecond or more; a box can ask faster than that.
_PER_SECOND = 10


class Askers:
    """Looks for programs, so often and no more."""

    def __init__(self) -> None:
        self._second = 0
        self._left = 0

    def program(self, port: int, *, stream: bool) -> str:
        """The name of the process in this network namespace whose socket has a local port, as
        it calls itself; "" when it cannot be told."""
        if int(time.monotonic()) != self._second:
            self._second, self._left = int(time.monotonic()), _PER_SECOND
        if self._left == 0:
            return ""
        self._left -= 1
        with suppress(OSError, ValueError):
            inode = _inode(port, "tcp" if stream else "udp")
            return next((_name(pid) for pid in _here() if inode and _has(pid, inode)), "")
        return ""


def _inode(port: int, table: str) -> str:
    """Of the socket with a local port, from the kernel's list for this namespace."""
    ending = f":{port:04X}"
    with open(f"/proc/thread-self/net/{table}", encoding="ascii") as lines:
        next(lines)
        for words in map(str.split, lines):
            if words[1].endswith(ending) and words[9] != "0":
                return words[9]
    return ""


def _here() -> Iterator[int]:
    """The processes of this network namespace, but this one."""
    ours = os.readlink("/proc/thread-self/ns/net")
    for name in os.listdir("/proc"):
        with suppress(OSError):
            if name.isdigit() and os.readlink(f"/proc/{name}/ns/net") == ours:
                yield int(name)


def _has(pid: int, inode: str) -> bool:
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError):
                if os.readlink(f"{folder}/{name}") == f"socket:[{inode}]":
                    return True
    return False


def _name(pid: int) -> str:
    with open(f"/proc/{pid}/comm", "rb") as file:
        return file.read(64).decode("utf-8", "replace").removesuffix("\n")
