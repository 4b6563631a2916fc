"""A launcher for the boxes that this process is about to want.

Its fork server takes 30 ms to start, which pass while policies are read and plans are made.
Standard library only.
"""

from __future__ import annotations

from axonkernel.box.launch import Launcher

__all__ = ["expect_box", "expected"]

_launcher: Launcher | None = None


def expect_box() -> None:
    """Get ready for a box that this process will start, if nothing goes wrong before."""
    global _launcher
    if _launcher is None:
        _launcher = Launcher()
        _launcher.get_ready()


def expected() -> Launcher | None:
    """The launcher that is ready, or getting so; None when no box was expected.

    Who starts the last box closes it; until then it can be used any number of times.
    """
    return _launcher
