"""The folders of shared libraries, and the programs that lie among them."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator

from axonkernel.box import floor

__all__ = ["library_folders", "library_programs"]


def library_folders() -> Iterator[str]:
    """Folders of shared libraries, real paths: /etc/ld.so.conf's and the usual ones."""
    seen: set[str] = set()
    for folder in (*floor.LIBRARY_FOLDERS, *_ld_so_conf("/etc/ld.so.conf")):
        real = os.path.realpath(folder)
        if real in ("/", "/usr", "/usr/lib", "/usr/local/lib", "/lib"):
            continue  # holds far more than libraries; what is needed there is named
        if os.path.isdir(real) and real not in seen:
            seen.add(real)
            yield real


def _ld_so_conf(path: str) -> Iterator[str]:
    import glob

    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = [line.split("#", 1)[0].strip() for line in file]
    except OSError:
        return
    for line in lines:
        if line.startswith("include "):
            for included in sorted(glob.glob(line.removeprefix("include ").strip())):
                yield from _ld_so_conf(included)
        elif line.startswith("/"):
            yield line


def library_programs(folders: tuple[str, ...]) -> tuple[str, ...]:
    """Programs that lie among the libraries, such as helpers of packages."""
    return _programs_among(folders, tuple(os.stat(folder).st_mtime_ns for folder in folders))


@functools.lru_cache(maxsize=8)
def _programs_among(folders: tuple[str, ...], stamps: tuple[int, ...]) -> tuple[str, ...]:
    """One walk per process and state of the folders: thousands of names are looked at."""
    return tuple(
        path
        for folder in folders
        for where, _, names in os.walk(folder)
        for name in names
        if ".so" not in name
        and not os.path.islink(path := f"{where}/{name}")
        and os.access(path, os.X_OK)
    )
