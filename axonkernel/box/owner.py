"""Names that say which process made a unit or a control group, so that others can tell
whether it is still there. Standard library only.
"""

from __future__ import annotations

import os
import re

__all__ = ["is_orphan", "unique_name"]

_OWNER = re.compile(r"axonkernel[-_](\d+)s(\d+)n(\d+)x[0-9a-f]+(\.|$)")


def unique_name(prefix: str = "axonkernel-") -> str:
    """A new name with this process in it: letters, digits and the prefix."""
    started, namespace = _started("self"), _namespace()
    return f"{prefix}{os.getpid()}s{started}n{namespace}x{os.urandom(6).hex()}"


def is_orphan(name: str) -> bool:
    """Whether the process that made ``name`` is gone.

    False for names of other makers, and of processes in another pid namespace: their pids
    mean nothing here.
    """
    match = _OWNER.match(name)
    if match is None or int(match[3]) != _namespace():
        return False
    return _started(match[1]) != match[2]


def _namespace() -> int:
    return os.stat("/proc/self/ns/pid").st_ino


def _started(pid: str) -> str:
    """When a process started, in ticks since boot; "" when it is gone. Pids come again."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, *rest = file.read().rpartition(") ")[2].split()
    except OSError:
        return ""
    return "" if state in "ZX" else rest[18]
