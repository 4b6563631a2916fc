"""The attempts that are compiled, where there is a compiler."""

from __future__ import annotations

import functools
import shutil
import subprocess
import tempfile
from pathlib import Path

from axonkernel.escapes import tries

__all__ = ["compile_attempts"]

_FLAGS = ("-O1", "-static", "-no-pie", "-pthread")


def compile_attempts(target: Path) -> str:
    """Compile them to ``target``; returns its path, or "" where that cannot be done."""
    program = _compiled()
    if not program:
        return ""
    target.write_bytes(program)
    target.chmod(0o755)
    return str(target)


@functools.cache
def _compiled() -> bytes:
    """The program; empty without a compiler, or where that finds no static C library."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        return b""
    source = Path(tries.__path__[0], "compiled.c")
    with tempfile.NamedTemporaryFile() as file:
        words = [compiler, *_FLAGS, "-o", file.name, str(source)]
        try:
            done = subprocess.run(words, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
        except subprocess.TimeoutExpired:
            return b""
        return b"" if done.returncode else Path(file.name).read_bytes()
