"""What a policy comes to on this machine, as lines for ``axonkernel check``. Reads only."""

from __future__ import annotations

import os
from collections.abc import Iterator

from axonkernel.box.unbuilt import unreachable
from axonkernel.config.source import shown
from axonkernel.errors import AxonError
from axonkernel.paths import linked_grants
from axonkernel.policy.model import FsPolicy, Policy
from axonkernel.policy.protect import DEFAULT_PROTECT

__all__ = ["lacking_limits", "machine_notes", "refused_notes"]


def machine_notes(policy: Policy) -> tuple[str, ...]:
    """Missing grants, grants of single files, writable programs, what is protected."""
    fs = policy.fs
    net = tuple(unreachable(policy.net))
    if fs is None:
        return net
    return (
        *net,
        *linked_grants(policy),
        *_reads(fs),
        *_writes(fs),
        *_writable_programs(fs),
        *_protected(fs),
    )


def refused_notes(policy: Policy) -> tuple[str, ...]:
    """A note for each declared field that this machine would refuse to run with.

    Tries what the machine can hold, once per boot, or again while something is missing.
    """
    from axonkernel.box.prepare import refused

    try:
        pieces = refused(policy)
    except (AxonError, OSError):  # a note less; a launch will say what is wrong
        return ()
    return tuple(
        f"$.{field}: this machine would refuse it: {piece.missing} is missing; fix: {piece.fix}"
        for field, piece in pieces.items()
    )


def lacking_limits() -> str:
    """What this machine lacks to hold memory, cpu and pids; "" when it lacks nothing.

    Where there is no box at all that is not said of the limits.
    """
    from axonkernel.box.probe import probe

    piece = next((piece for piece in probe(refresh=True).pieces if piece.name == "limits"), None)
    return "" if piece is None or piece.ok else piece.missing


def _reads(fs: FsPolicy) -> Iterator[str]:
    for index, path in enumerate(fs.read):
        if not os.path.exists(path):
            yield f"$.fs.read[{index}]: {shown(path)} does not exist; it is skipped"
        elif os.path.isfile(path):
            yield f"$.fs.read[{index}]: {_one_file(path)}"


def _writes(fs: FsPolicy) -> Iterator[str]:
    for index, path in enumerate(fs.write):
        if not os.path.lexists(path):
            yield f"$.fs.write[{index}]: {shown(path)} does not exist; it is made, as a folder"
        elif os.path.isfile(path):
            yield f"$.fs.write[{index}]: {_one_file(path)}"


def _one_file(path: str) -> str:
    return (
        f"{shown(path)} is granted as the file it is now; one that is saved by replacing it "
        "(as editors do) is seen at the next start"
    )


def _writable_programs(fs: FsPolicy) -> Iterator[str]:
    """A person who types a name would run what the agent has put there."""
    for folder in dict.fromkeys(os.environ.get("PATH", "").split(":")):
        real = os.path.realpath(folder)
        grants = (path for path in map(os.path.realpath, fs.write))
        if folder.startswith("/") and any(_below(real, grant) for grant in grants):
            yield f"$.fs.write: {shown(folder)} is on your PATH: the agent can change what you run"


def _protected(fs: FsPolicy) -> Iterator[str]:
    if not fs.write or fs.protect == ():
        return
    count = len(DEFAULT_PROTECT) if fs.protect is None else len(fs.protect)
    which = (
        "git hooks and settings, shell, editor and agent start-up files, policies"
        if fs.protect is None
        else "as fs.protect says"
    )
    yield f"$.fs.protect: {count} names are read-only inside fs.write ({which})"


def _below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
