"""The processes a call started, where no pid namespace holds them.

Found by session and by parent. A process that leaves both (a double fork with setsid) is
out of reach here: a box is what holds those.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import suppress

__all__ = ["kill_tree", "session_members"]

_ROUNDS = 20

#: A process in the middle of a disk operation dies only after it.
_PATIENCE_S = 1.0


def session_members(session: int) -> set[int]:
    """The living processes of a session; empty where /proc is missing."""
    return {pid for pid, _, own, state in _processes() if own == session and state not in "ZX"}


def kill_tree(pid: int) -> None:
    """Kill the session of ``pid``, which leads it, and all descendants of its members.

    They are stopped first, until no new one appears, so that none can fork away meanwhile.
    """
    stopped: set[int] = set()
    for _ in range(_ROUNDS):
        found = _below(pid) - stopped
        if not found:
            break
        for each in found:
            _signal(each, signal.SIGSTOP)
        stopped |= found
    for each in stopped:
        _signal(each, signal.SIGKILL)
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)
    _await_end(stopped)


def _await_end(killed: set[int]) -> None:
    """A killed process is gone a moment later, and the call must not end before that."""
    deadline = time.monotonic() + _PATIENCE_S
    while killed and time.monotonic() < deadline:
        killed = {pid for pid, _, _, state in _processes() if pid in killed and state not in "ZX"}
        if killed:
            time.sleep(0.001)


def _below(session: int) -> set[int]:
    """Members of the session and everything below them."""
    table = [entry for entry in _processes() if entry[3] not in "ZX"]
    found = {pid for pid, _, own, _ in table if own == session}
    found |= {pid for pid, parent, _, _ in table if parent == session}
    while True:
        more = {pid for pid, parent, _, _ in table if parent in found} - found
        if not more:
            return found - {os.getpid()}
        found |= more


def _processes() -> Iterator[tuple[int, int, int, str]]:
    """(pid, parent, session, state letter) of every process that can be seen."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
            yield int(name), int(fields[1]), int(fields[3]), fields[0].decode()
        except (OSError, IndexError, ValueError):
            continue  # it has ended since


def _signal(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
