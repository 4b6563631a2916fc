"""The built-in tools ``fs.list``, ``fs.glob`` and ``fs.grep``.

What they find is judged name by name: what the policy does not let be read is left
out and only counted. Symlinks are listed, never followed.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from typing import Annotated, Any, Literal

from attrs import define

from axonkernel.errors import ToolError
from axonkernel.paths import resolve
from axonkernel.policy.globs import argument_glob, path_glob
from axonkernel.policy.request import Request
from axonkernel.tools.beneath import open_folder, parent_of
from axonkernel.tools.files import Judge, output_cap
from axonkernel.tools.subjects import Plain, ReadPath

__all__ = ["glob", "grep", "list_folder"]

Kind = Literal["file", "folder", "symlink", "other"]

_MOST_FOUND = 10_000
_LONGEST_LINE_CHARACTERS = 2_000
_LARGEST_FILE_BYTES = 16 * 1024 * 1024
#: Each folder on the way down is held open.
_DEEPEST = 100


@define
class _Walk:
    """One walk over a folder, with what it leaves out."""

    kernel: Judge
    hidden: int = 0
    cut: bool = False

    def entries(self, folder: int, path: str) -> Iterator[tuple[str, Kind, int]]:
        """(name, kind, size in bytes) of what may be read in an open folder, sorted."""
        for name in sorted(os.listdir(folder)):
            try:
                status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            except OSError:
                continue  # gone since
            kind = _kind(status.st_mode)
            inside = f"{path.rstrip('/')}/{name}"
            # A symlink stands for its target too: its name must not tell what is hidden.
            if self._readable(inside) and (kind != "symlink" or self._readable(resolve(inside))):
                yield name, kind, status.st_size
            else:
                self.hidden += 1

    def below(
        self, folder: int, path: str, depth: int = 0
    ) -> Iterator[tuple[int, str, str, Kind, int]]:
        """(folder, name in it, path, kind, size in bytes) of all that may be read below, down
        to 100 folders; ``cut`` says that there was more."""
        for name, kind, size_bytes in self.entries(folder, path):
            inside = f"{path.rstrip('/')}/{name}"
            yield folder, name, inside, kind, size_bytes
            if kind == "folder" and depth < _DEEPEST:
                yield from self._descend(folder, name, inside, depth + 1)
            elif kind == "folder":
                self.cut = True

    def _descend(
        self, folder: int, name: str, path: str, depth: int
    ) -> Iterator[tuple[int, str, str, Kind, int]]:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, dir_fd=folder)
        except OSError:
            return  # not ours to read, or no folder any more
        try:
            yield from self.below(descriptor, path, depth)
        finally:
            os.close(descriptor)

    def _readable(self, path: str) -> bool:
        return self.kernel.decide(Request.read(path)).verdict == "allow"


def list_folder(kernel: Judge, path: Annotated[str, ReadPath] = ".") -> dict[str, Any]:
    """List a folder.

    Returns ``entries`` (each with ``name``, ``kind`` and ``size_bytes``) and ``hidden``, the
    number of entries that may not be seen.
    """
    walk = _Walk(kernel)
    try:
        with open_folder(path) as folder:
            entries = [
                {"name": name, "kind": kind, "size_bytes": size_bytes}
                for name, kind, size_bytes in walk.entries(folder, path)
            ]
    except OSError as error:
        raise ToolError("fs.list", error.strerror or "cannot be listed") from None
    return {"entries": entries, "hidden": walk.hidden}


def glob(
    kernel: Judge, pattern: Annotated[str, Plain], path: Annotated[str, ReadPath] = "."
) -> dict[str, Any]:
    """Find files and folders below ``path`` by a path pattern (``**`` crosses folders).

    Returns ``paths`` and ``hidden``; ``truncated`` when there were more than 10,000, or folders
    more than 100 deep.
    """
    if pattern.startswith("/") or "\0" in pattern or ".." in pattern.split("/"):
        raise ToolError("fs.glob", "the pattern counts from path and stays below it")
    matches = path_glob(f"/{pattern}")
    walk = _Walk(kernel)
    found: list[str] = []
    try:
        with open_folder(path) as folder:
            for _, _, inside, _, _ in walk.below(folder, path):
                if matches(inside.removeprefix(path.rstrip("/"))):
                    found.append(inside)
                if len(found) > _MOST_FOUND:
                    break
    except OSError as error:
        raise ToolError("fs.glob", error.strerror or "cannot be searched") from None
    truncated = walk.cut or len(found) > _MOST_FOUND
    return {"paths": found[:_MOST_FOUND], "hidden": walk.hidden, "truncated": truncated}


def grep(
    kernel: Judge,
    text: str,
    path: Annotated[str, ReadPath] = ".",
    names: str = "*",
    ignore_case: bool = False,
) -> dict[str, Any]:
    """Find lines that hold ``text``, in the files below ``path`` whose names match ``names``.

    ``text`` is plain text: a regular expression from a model could run for ever. Files over
    16 MiB and binary files are passed over.

    Returns ``matches`` (each with ``path``, ``line`` and ``text``), ``hidden`` and
    ``truncated``.
    """
    if not text:
        raise ToolError("fs.grep", "there is no text to look for")
    search = _Search(text, ignore_case, output_cap(kernel))
    walk = _Walk(kernel)
    try:
        _grep_below(search, walk, path, names)
    except NotADirectoryError:
        with suppress(OSError), parent_of(path) as (folder, name):
            search.file(folder, name, path)
    except OSError as error:
        raise ToolError("fs.grep", error.strerror or "cannot be searched") from None
    return {"matches": search.found, "hidden": walk.hidden, "truncated": search.full or walk.cut}


def _grep_below(search: _Search, walk: _Walk, path: str, names: str) -> None:
    wanted = argument_glob(names)
    with open_folder(path) as folder:
        for parent, name, inside, kind, size_bytes in walk.below(folder, path):
            if kind == "file" and size_bytes <= _LARGEST_FILE_BYTES and wanted(name):
                search.file(parent, name, inside)
            if search.full:
                return


class _Search:
    """Collects the lines that hold a text."""

    def __init__(self, text: str, ignore_case: bool, cap_bytes: int) -> None:
        self.found: list[dict[str, Any]] = []
        self._text = text.casefold() if ignore_case else text
        self._ignore_case = ignore_case
        self._left_bytes = cap_bytes

    @property
    def full(self) -> bool:
        """Whether no more lines are taken."""
        return self._left_bytes <= 0 or len(self.found) >= _MOST_FOUND

    def file(self, folder: int, name: str, path: str) -> None:
        """Search one file, opened in its folder."""
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        try:
            descriptor = os.open(name, flags, dir_fd=folder)
        except OSError:
            return
        with open(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                return
            data = file.read(_LARGEST_FILE_BYTES)
        if b"\0" not in data[:8192]:
            self._lines(path, data.decode("utf-8", "replace"))

    def _lines(self, path: str, content: str) -> None:
        for number, line in enumerate(content.split("\n"), 1):
            if self._text not in (line.casefold() if self._ignore_case else line):
                continue
            shown = line[:_LONGEST_LINE_CHARACTERS]
            self._left_bytes -= len(shown) + len(path)
            if self.full:
                return
            self.found.append({"path": path, "line": number, "text": shown})


def _kind(mode: int) -> Kind:
    if stat.S_ISLNK(mode):
        return "symlink"
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "other"
