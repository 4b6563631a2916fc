"""Importing and compiling while other processes work."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from importlib.util import cache_from_source
from pathlib import Path
from threading import Thread, main_thread

__all__ = ["compiling", "importing"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: Imported in a box alone, the last of them at the end of what is compiled in order.
_INSIDE = ("supervisor/inside.py", "tools/tool.py")


def importing(*modules: str) -> Thread:
    """A thread that imports ``modules``, in order. What fails there fails again, and is told,
    where it is needed."""

    thread = Thread(target=_each, args=(import_module, modules), name="axonkernel-ahead")
    thread.start()
    return thread


def compiling() -> None:
    """See, in a thread, that every module of ours has bytecode beside it.

    A box cannot write there, and would compile two hundred modules at each start where nobody
    has done so: pip compiles what it installs, other installers do not.
    """
    if not sys.dont_write_bytecode and any(map(_is_uncompiled, _INSIDE)):
        Thread(target=_compile, name="axonkernel-compiling").start()


def _is_uncompiled(module: str) -> bool:
    source = os.path.join(_PACKAGE, module)
    try:
        return os.stat(cache_from_source(source)).st_mtime < os.stat(source).st_mtime
    except OSError:
        return True


def _compile() -> None:
    from compileall import compile_file

    sources = sorted(str(path) for path in Path(_PACKAGE).rglob("*.py"))
    _each(lambda source: compile_file(source, quiet=2), sources)


def _each(work: Callable[[str], object], names: Iterable[str]) -> None:
    """Do ``work`` with one after the other, while the program goes on.

    The end of the program waits for what has been begun: an interpreter that is taken apart
    around an import crashes.
    """
    with suppress(Exception):
        for name in names:
            if not main_thread().is_alive():
                return
            work(name)
