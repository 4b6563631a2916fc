"""The attempts that are compiled, where there is a compiler."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from axonkernel.escapes import tries

__all__ = ["compile_attempts"]

_FLAGS = ("-O1", "-static", "-no-pie", "-pthread")


def compile_attempts(target: Path) -> str:
    """Compile them to ``target``; returns its path, or "" where that cannot be done."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return ""
    source = Path(tries.__path__[0], "compiled.c")
    words = [compiler, *_FLAGS, "-o", str(target), str(source)]
    try:
        done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    except subprocess.TimeoutExpired:
        return ""
    return "" if done.returncode else str(target)
