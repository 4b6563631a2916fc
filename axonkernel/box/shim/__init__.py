"""The program that lies at the name of a brokered one; see README.md. Standard library only."""

from __future__ import annotations

import os

from axonkernel.errors import IsolationUnavailable

__all__ = ["packs", "path"]

_FOLDER = os.path.dirname(os.path.abspath(__file__))


def packs() -> str:
    """What is git's shell in a box of its own; "" where there is none for this machine."""
    found = os.path.join(_FOLDER, f"packs.{os.uname().machine}")
    return found if os.access(found, os.X_OK) else ""


def path() -> str:
    """The shim for this machine. Raises IsolationUnavailable where there is none."""
    machine = os.uname().machine
    found = os.path.join(_FOLDER, f"shim.{machine}")
    if not os.access(found, os.X_OK):
        fix = "build it with scripts/build-shim"
        raise IsolationUnavailable("shell.args", f"a shim for {machine} at {found}", fix)
    return found
