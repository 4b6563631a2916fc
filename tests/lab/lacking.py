"""A machine that lacks something, for one command: real, and gone with the command.

The command runs in a mount namespace of its own, in which things are covered, or in a user
namespace that allows no others. Root only: to anybody else the programs of this machine would
seem to belong to nobody in there, and none would be trusted.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from lab.processes import PATH

__all__ = ["PIECES", "without"]

#: Cover each file given before "--" with a device and each folder with nothing.
COVER = """
while [ "$1" != -- ]; do
    if [ -d "$1" ]; then mount -t tmpfs -o mode=755 covered "$1"
    else mount --bind /dev/null "$1"; fi || exit 99
    shift
done
shift
exec "$@"
"""
NO_USER_NAMESPACES = 'echo 0 > /proc/sys/user/max_user_namespaces || exit 99; exec "$@"'
PIECES = ("bwrap", "nft", "pasta", "systemd", "user namespaces")


def without(piece: str, argv: Sequence[str | os.PathLike[str]]) -> list[str]:
    """The command that runs ``argv`` where ``piece`` is missing; 99 when that fails."""
    words = [os.fspath(word) for word in argv]
    if piece == "user namespaces":
        new = ["unshare", "--user", "--map-root-user"]
        return [*new, "sh", "-c", NO_USER_NAMESPACES, "sh", *words]
    return ["unshare", "--mount", "sh", "-c", COVER, "sh", *_covered(piece), "--", *words]


def _covered(piece: str) -> list[str]:
    if piece == "systemd":
        return [path for path in ("/run/systemd",) if os.path.isdir(path)]
    found = [shutil.which(piece, path=PATH)]
    if piece == "nft":
        spec = importlib.util.find_spec("nftables")
        found += [str(Path(spec.origin).parent)] if spec and spec.origin else []
    return [os.path.realpath(path) for path in found if path]
