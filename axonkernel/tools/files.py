"""The built-in tools ``fs.read``, ``fs.write``, ``fs.edit`` and ``fs.remove``."""

from __future__ import annotations

import os
import stat
from typing import Annotated, Protocol

from axonkernel.errors import LimitExceeded, PolicyDenied, ToolError
from axonkernel.policy.model import Policy
from axonkernel.policy.request import AnyRequest, Decision, Request
from axonkernel.tools.beneath import open_judged, parent_of
from axonkernel.tools.subjects import ReadPath, WriteEntry, WritePath

__all__ = ["OUTPUT_BYTES", "Judge", "edit", "output_cap", "read", "remove", "write"]

#: Bytes one call returns when ``limits.output`` is not declared.
OUTPUT_BYTES = 10 * 1024 * 1024


class Judge(Protocol):
    """What the built-in tools need of the kernel they run under."""

    @property
    def policy(self) -> Policy:
        """What holds for this call, all layers met."""
        ...

    def decide(self, request: AnyRequest) -> Decision:
        """The decision about a request that is canonical: absolute, symlinks resolved."""
        ...


def read(
    kernel: Judge, path: Annotated[str, ReadPath], offset: int = 0, limit: int | None = None
) -> str:
    """Read a text file as UTF-8; bytes that are not become U+FFFD.

    Arguments:
        offset: first byte.
        limit: how many bytes; None for the rest of the file.

    Raises LimitExceeded when that is more than one call may return, ToolError when the file
    cannot be read.
    """
    return _read_bytes(kernel, path, max(offset, 0), limit).decode("utf-8", "replace")


def write(kernel: Judge, path: Annotated[str, WritePath], text: str) -> int:
    """Write ``text`` to a file, replacing what was in it; returns the bytes written.

    Missing folders on the way are made where the policy grants each of them.
    """
    return _write_bytes(kernel, path, text.encode("utf-8", "surrogateescape"))


def edit(
    kernel: Judge, path: Annotated[str, WritePath], old: str, new: str, every: bool = False
) -> int:
    """Replace ``old`` by ``new`` in a text file; returns how often.

    Raises ToolError when ``old`` is not there, or is there more than once and ``every`` is
    not set.
    """
    try:
        text = _read_bytes(kernel, path, 0, None).decode("utf-8")
    except UnicodeDecodeError:
        raise ToolError("fs.edit", "the file is not UTF-8 text") from None
    count = text.count(old) if old else 0
    if count == 0:
        raise ToolError("fs.edit", "the old text is not in the file")
    if count > 1 and not every:
        raise ToolError("fs.edit", f"the old text is in the file {count} times; give more of it")
    _write_bytes(kernel, path, text.replace(old, new).encode())
    return count


def remove(kernel: Judge, path: Annotated[str, WriteEntry]) -> None:
    """Remove a file, a symlink itself, or an empty folder."""
    try:
        with parent_of(path) as (folder, name):
            kind = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
            if stat.S_ISDIR(kind):
                os.rmdir(name, dir_fd=folder)
            else:
                os.unlink(name, dir_fd=folder)
    except OSError as error:
        raise ToolError("fs.remove", _reason(error)) from None


def output_cap(kernel: Judge) -> int:
    """Bytes one call may return."""
    limits = kernel.policy.limits
    declared = limits.output_bytes if limits is not None else None
    return OUTPUT_BYTES if declared is None else declared


def _read_bytes(kernel: Judge, path: str, offset: int, limit: int | None) -> bytes:
    cap = output_cap(kernel)
    wanted = cap + 1 if limit is None else min(max(limit, 0), cap + 1)
    try:
        with open_judged(path, os.O_RDONLY) as file:
            parts = bytearray()
            while len(parts) < wanted:
                chunk = os.pread(file, min(wanted - len(parts), 1 << 20), offset + len(parts))
                if not chunk:
                    break
                parts += chunk
    except OSError as error:
        raise ToolError("fs.read", _reason(error)) from None
    if len(parts) > cap:
        raise LimitExceeded("output", "tool fs.read", cap)
    return bytes(parts)


def _write_bytes(kernel: Judge, path: str, data: bytes) -> int:
    def make(folder: str) -> None:
        decision = kernel.decide(Request.write(folder))
        if decision.verdict != "allow":
            raise PolicyDenied(decision.code, "tool fs.write, to make a missing folder")

    try:
        with open_judged(path, os.O_WRONLY | os.O_CREAT, make=make) as file:
            if os.fstat(file).st_nlink > 1:
                raise ToolError("fs.write", "the file has other names, which would change too")
            os.ftruncate(file, 0)
            left = memoryview(data)
            while left:
                left = left[os.write(file, left) :]
    except OSError as error:
        raise ToolError("fs.write", _reason(error)) from None
    return len(data)


def _reason(error: OSError) -> str:
    """Why, without names the caller did not give."""
    return error.strerror or type(error).__name__
