"""Whether a program can be executed inside a file tree, and if not, why.

bwrap answers 1 both when the program is missing and when it returned 1; this tells the two
apart before anything runs. Standard library only.
"""

from __future__ import annotations

import os
import posixpath

from axonkernel.box.linux import open_in_root
from axonkernel.errors import BoxError

__all__ = ["NOT_EXECUTABLE", "NOT_FOUND", "require_program"]

#: Stages of a BoxError, and with them exit codes 127 and 126, as in env(1).
NOT_FOUND = "program"
NOT_EXECUTABLE = "program-mode"


def require_program(root_fd: int, name: str, cwd: str, path: str) -> None:
    """Raise BoxError when ``name`` is not an executable file below ``root_fd``.

    Arguments:
        root_fd: the root of the box's file tree.
        cwd: the working directory inside, for names with a slash.
        path: the PATH inside, for bare names.
    """
    candidates = (
        [posixpath.join(cwd, name)]
        if "/" in name
        else [posixpath.join(folder, name) for folder in path.split(":") if folder]
    )
    refused = ""
    for candidate in candidates:
        try:
            fd = open_in_root(root_fd, candidate, os.O_PATH)
        except OSError:
            continue
        try:
            mode = os.fstat(fd).st_mode
        finally:
            os.close(fd)
        regular = mode & 0o170000 == 0o100000
        if mode & 0o111 and regular:
            return _require_interpreter(root_fd, candidate)
        refused = f"{candidate} is not an executable file"
        if regular:
            import shlex  # for a message alone

            refused += f"; fix: chmod +x {shlex.quote(name if '/' in name else candidate)}"
    if refused:
        raise BoxError(NOT_EXECUTABLE, refused)
    raise BoxError(NOT_FOUND, f"{name}: no such program in the box (PATH is {path})")


def _require_interpreter(root_fd: int, script: str) -> None:
    """Raise BoxError for a script whose ``#!`` names what is not there."""
    try:
        fd = open_in_root(root_fd, script, os.O_RDONLY)
    except OSError:
        return  # not readable: the kernel will judge it
    try:
        first = os.read(fd, 256).split(b"\n", 1)[0]
    finally:
        os.close(fd)
    if not first.startswith(b"#!") or not first[2:].split():
        return
    interpreter = os.fsdecode(first[2:].split()[0])
    try:
        os.close(open_in_root(root_fd, interpreter, os.O_PATH))
    except OSError:
        message = f"{script}: its interpreter {interpreter} is not in the box"
        raise BoxError(NOT_EXECUTABLE, f"{message}; add it to shell.allow") from None
