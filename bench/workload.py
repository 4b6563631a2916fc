"""Work for a process in a box, and for its twin outside; standard library only.

Its text is handed to ``python3 -c``, so nothing of this project need exist in the box. A line
in is a task and its words, a line out the seconds it took.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable


def walk(root: str) -> None:
    """Look at every name below a folder."""
    for folder, _, files in os.walk(root):
        for name in files:
            os.lstat(os.path.join(folder, name))


def spawn(program: str, count: str) -> None:
    """Run a program that does nothing, again and again."""
    for _ in range(int(count)):
        os.waitpid(os.posix_spawn(program, [program], {}), 0)


def write(path: str, megabytes: str) -> None:
    """Write a file and remove it."""
    block = bytes(1 << 20)
    with open(path, "wb", buffering=0) as file:
        for _ in range(int(megabytes)):
            file.write(block)
    os.unlink(path)


def look(path: str, count: str) -> None:
    """Open, look at and close one file, again and again."""
    for _ in range(int(count)):
        fd = os.open(path, os.O_RDONLY)
        os.fstat(fd)
        os.close(fd)
        os.stat(path)


TASKS: dict[str, Callable[..., None]] = {
    "walk": walk,
    "spawn": spawn,
    "write": write,
    "look": look,
}

for line in sys.stdin:
    task, *words = line.split("\t")
    begun_s = time.perf_counter()
    TASKS[task](*(word.rstrip("\n") for word in words))
    print(time.perf_counter() - begun_s, flush=True)
