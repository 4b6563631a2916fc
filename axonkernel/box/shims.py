"""Where the programs lie that stand in a box for others. Standard library only."""

from __future__ import annotations

import os

__all__ = ["shim_file"]

_FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "shim")


def shim_file() -> str:
    """The program that lies at the names of brokered ones; "" where this machine has none."""
    path = f"{_FOLDER}/shim-{os.uname().machine}"
    return path if os.access(path, os.X_OK) else ""
