"""Where axonkernel keeps what is its own; standard library only."""

from __future__ import annotations

import contextlib
import os

__all__ = ["own_folders", "state_folder"]


def state_folder() -> str:
    """Where axonkernel keeps its own records; no box ever reaches it."""
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # a relative one is to be ignored (XDG base directories)
        state = os.path.expanduser("~/.local/state")
    return os.path.join(state, "axonkernel")


def own_folders() -> tuple[str, ...]:
    """Where axonkernel keeps anything of its own: records, answers, plans, the user's profile.

    They are made when missing: what is not there cannot be hidden, and a box with the whole
    home would make it.
    """
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    folders = (state_folder(), f"{config}/axonkernel", f"{cache}/axonkernel")
    for folder in folders:
        with contextlib.suppress(OSError):
            os.makedirs(folder, mode=0o700, exist_ok=True)
    return tuple(map(os.path.realpath, folders))
