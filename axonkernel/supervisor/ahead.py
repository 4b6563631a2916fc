"""Importing and compiling while other processes work."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import cache_from_source
from threading import Thread

__all__ = ["compiling", "importing"]

_PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: Imported in a box alone, the last of them at the end of what is compiled in order.
_INSIDE = ("supervisor/inside.py", "tools/tool.py")


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


def compiling() -> None:
    """See, in a thread, that every module of ours has bytecode beside it.

    A box cannot write there, and would compile two hundred modules at each start where nobody
    has done so: pip compiles what it installs, other installers do not.
    """
    if not sys.dont_write_bytecode and any(map(_is_uncompiled, _INSIDE)):
        Thread(target=_compile, name="axonkernel-compiling", daemon=True).start()


def _is_uncompiled(module: str) -> bool:
    source = os.path.join(_PACKAGE, module)
    try:
        return os.stat(cache_from_source(source)).st_mtime < os.stat(source).st_mtime
    except OSError:
        return True


def _compile() -> None:
    from compileall import compile_dir

    with suppress(Exception):  # it is only slower without
        compile_dir(_PACKAGE, quiet=2)
