"""From a program's name to the one file that is judged, shown and run."""

from __future__ import annotations

import os
from collections.abc import Mapping

from attrs import frozen

from axonkernel.box.find import find_program, search_path
from axonkernel.policy.model import Policy
from axonkernel.policy.wellformed import unencodable

__all__ = ["Located", "Lookup"]


@frozen
class Located:
    """A program on this machine.

    Arguments:
        name: the path it is called by, which the program sees as its own name.
        file: the file that is executed, symlinks and shims resolved; None when there is none.
    """

    name: str
    file: str | None


class Lookup:
    """Finds programs on one PATH.

    Arguments:
        policy: its ``shell.path`` and write grants shape the PATH.
        environ: where PATH comes from when ``shell.path`` is not declared.
    """

    def __init__(self, policy: Policy, environ: Mapping[str, str]) -> None:
        declared = policy.shell.path if policy.shell is not None else ()
        folders = declared or environ.get("PATH", os.defpath).split(os.pathsep)
        writes = policy.fs.write if policy.fs is not None else ()
        self.path = search_path(folders, writes)

    def find(self, word: str, cwd: str) -> Located:
        """What ``word`` names: a bare name on the PATH, or a path from ``cwd``."""
        name = os.path.join(cwd, word) if "/" in word else word
        if not word or "\0" in name or unencodable(name):
            return Located(word, None)
        program = find_program(name, self.path)
        if program is None:
            return Located(name, None)
        # The name on the way, not its end: busybox and virtual environments look at it.
        # A shim is no symlink but a script, and what it starts goes by its own name.
        links = (link for link, _ in program.links if os.path.islink(link))
        return Located(next(links, program.file), program.file)
