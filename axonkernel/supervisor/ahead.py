"""Importing while other processes work."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from threading import Thread

__all__ = ["importing"]


def importing(*modules: str) -> Thread:
    """A thread that imports ``modules``, in order. What fails there fails again, and is told,
    where it is needed."""

    def work() -> None:
        with suppress(Exception):
            for module in modules:
                import_module(module)

    thread = Thread(target=work, name="axonkernel-ahead", daemon=True)
    thread.start()
    return thread
