"""A launch where ptrace is refused: the program cannot be held at its first instruction.

All but the filter is looked at while bwrap waits for its byte; the filter, which bwrap sets
as the last thing before the exec, when the program has begun. An agent's first code looks at
it itself (child.py) before it takes a request. Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable

from axonkernel.box.gate import GateError, filters, status_of

__all__ = ["await_block", "await_program", "filter_fault", "not_traced"]

_WITHIN_S = 10.0
_LOOK_S = 0.0003


def not_traced(_: int) -> None:
    """In place of :func:`axonkernel.box.gate.seize`."""


def await_block(init: int) -> None:
    """Until the box of ``init`` is made and waits: it drops its capabilities just before.

    Raises GateError when it ends or takes too long.
    """
    if not _until(init, lambda: int(int(status_of(init)["CapEff"], 16) == 0)):
        raise GateError("the box ended, or hung, while it was being made")


def await_program(init: int) -> int:
    """The pid of the released program: the first child of ``init``, which may still be bwrap;
    0 when it has ended already."""
    return _until(init, lambda: _child(init))


def filter_fault(pid: int, bwrap: int) -> str:
    """What is wrong with the filter of ``pid`` once it is no more the program of ``bwrap``,
    or has ended; "" when nothing is."""
    own = _words(bwrap)
    deadline_s = time.monotonic() + _WITHIN_S
    while time.monotonic() < deadline_s:
        try:
            words = _words(pid)  # before the filter, which is set before the exec
            if filters(pid) > filters(os.getpid()) or status_of(pid)["State"][0] in "ZX":
                return ""
            if words and words != own:  # none in the middle of an exec
                return "no seccomp filter"
        except (FileNotFoundError, ProcessLookupError):
            return ""
        time.sleep(_LOOK_S)
    return "the program did not begin"


def _until(init: int, found: Callable[[], int]) -> int:
    """What is found first; 0 when the box of ``init`` ends before."""
    deadline_s = time.monotonic() + _WITHIN_S
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        while not (value := found()):
            if status_of(init)["State"][0] in "ZX" or time.monotonic() > deadline_s:
                return 0
            time.sleep(_LOOK_S)
        return value
    return 0


def _child(init: int) -> int:
    with open(f"/proc/{init}/task/{init}/children", encoding="ascii") as file:
        words = file.read().split()
    return int(words[0]) if words else 0


def _words(pid: int) -> bytes:
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
