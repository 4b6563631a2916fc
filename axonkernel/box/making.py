"""Write grants that do not exist, made before the box is.

A folder is made below the last one on its way that exists, which is opened without following
a link, and by the user that the box runs as: root makes nothing, and gives nothing away, where
that user could not have made it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from axonkernel.box.linux import open_beneath
from axonkernel.box.model import BoxPlan
from axonkernel.errors import BoxError

__all__ = ["create"]

_MODE = 0o755


def create(plan: BoxPlan) -> None:
    """Make the missing write folders of ``plan`` (mode 0755, whatever the umask), as the user
    it runs as.

    Raises BoxError for one that cannot be made, or not by that user.
    """
    for path in plan.create:
        missing = list(_missing(path))
        if not missing:
            continue
        names = [os.path.basename(folder) for folder in reversed(missing)]
        try:
            _make(os.path.dirname(missing[-1]), names, plan.run_as)
        except OSError as error:
            why = f"{path}: cannot be made: {error.strerror or error}"
            raise BoxError("mounts", why + _fix(plan.run_as)) from error


def _fix(run_as: tuple[int, int] | None) -> str:
    if run_as is None:
        return ""
    return f"; fix: make it yourself, for uid {run_as[0]}, as whom the box runs (box.run_as)"


def _missing(path: str) -> Iterator[str]:
    """The path and the folders above it that do not exist, deepest first."""
    while not os.path.lexists(path):
        yield path
        path = os.path.dirname(path)


def _make(folder: str, names: list[str], run_as: tuple[int, int] | None) -> None:
    """Make ``names``, each in the one before it and the first in ``folder``."""
    root = os.open("/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fd = open_beneath(root, folder)
    finally:
        os.close(root)
    try:
        if run_as is None:
            _make_below(fd, names)
        else:
            _make_as(fd, names, run_as)
    finally:
        os.close(fd)


def _make_below(folder_fd: int, names: list[str]) -> None:
    fd = os.dup(folder_fd)
    try:
        for name in names:
            os.mkdir(name, dir_fd=fd)
            made = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            os.close(fd)
            fd = made
            os.chmod(f"/proc/self/fd/{fd}", _MODE)
    finally:
        os.close(fd)


def _make_as(folder_fd: int, names: list[str], run_as: tuple[int, int]) -> None:
    """In a process of that user's own, without a group or capability of this one's. It
    begins in the folder: those above may be closed to the user."""
    import subprocess

    uid, gid = run_as
    done = subprocess.run(
        ["mkdir", "-p", "--", os.path.join(".", *names)],
        cwd=f"/proc/self/fd/{folder_fd}",
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C"},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        user=uid,
        group=gid,
        extra_groups=(),
        umask=0o777 & ~_MODE,
        check=False,
    )
    if done.returncode:
        raise OSError(done.stderr.decode(errors="replace").strip())
