"""What is shown of an error that ends an agent: one line of ours, or the agent's own frames."""

from __future__ import annotations

import os
import signal
import sys
from types import TracebackType

from axonkernel.errors import AxonError

__all__ = ["told"]

#: Exit code of a program that ^C ended, as shells have it.
_INTERRUPTED = 128 + signal.SIGINT

#: What calls an agent's code: our own package, the event loops, and how a file is run.
_CALLERS = ("axonkernel", "anyio", "asyncio", "concurrent", "trio")


def told(error: BaseException) -> int:
    """Tell the operator of ``error`` on standard error; returns the exit code.

    An error of ours is its text. Of any other the traceback begins with the first frame that
    is the agent's own, and whoever set ``sys.excepthook`` shows it. ``AXON_DEBUG`` shows all.
    """
    if _debugging():
        sys.__excepthook__(type(error), error, error.__traceback__)
    if isinstance(error, KeyboardInterrupt):
        # On a terminal the cursor is behind ^C.
        sys.stderr.write("\n" * sys.stderr.isatty() + "axonkernel: interrupted\n")
        return _INTERRUPTED
    if isinstance(error, AxonError):
        sys.stderr.write(f"axonkernel: {error}\n")
        return error.exit_code
    if not _debugging():
        trace = _own(error.__traceback__)
        sys.excepthook(type(error), error.with_traceback(trace), trace)
    return 1


def _debugging() -> bool:
    return os.environ.get("AXON_DEBUG", "") not in ("", "0")


def _own(trace: TracebackType | None) -> TracebackType | None:
    """``trace`` from the agent's first frame on; all of it where it has none."""
    rest = trace
    while rest is not None and _calls(rest.tb_frame.f_globals.get("__name__") or ""):
        rest = rest.tb_next
    return rest if rest is not None else trace


def _calls(module: str) -> bool:
    return module in ("runpy", "threading") or module.partition(".")[0] in _CALLERS
