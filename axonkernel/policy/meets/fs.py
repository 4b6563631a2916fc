"""The common part of two ``fs`` blocks.

Both give each path a level (nothing, read, write) that only changes at the paths they
mention. The smaller level at each of those paths, and the denied patterns of both, are the
common part exactly.
"""

from __future__ import annotations

from axonkernel.policy.globs import is_glob, unescape
from axonkernel.policy.model import FsPolicy
from axonkernel.policy.protect import DEFAULT_PROTECT
from axonkernel.policy.rules.fs import NONE, READ, WRITE, FsRules
from axonkernel.policy.tables import ancestors

__all__ = ["meet_fs"]


def meet_fs(a: FsPolicy, b: FsPolicy) -> FsPolicy:
    """What both blocks grant."""
    if a == b:
        return a
    levels = _levels(a, b)
    denied = _unique(a.deny, b.deny)
    closed = {path for path, level in levels.items() if level == NONE}
    literal = {unescape(text) for text in denied if not is_glob(text)}
    granted = {path: level for path, level in levels.items() if level != NONE}
    carved = (path for path in closed - literal if _would_be_granted(path, levels))
    return FsPolicy(
        read=tuple(path for path, level in granted.items() if level == READ),
        write=tuple(path for path, level in granted.items() if level == WRITE),
        deny=(*(text for text in denied if _still_denied(text, closed)), *sorted(carved)),
        protect=_meet_protect(a.protect, b.protect),
        unsafe=tuple(path for path in granted if _lifted(a, path) and _lifted(b, path)),
    )


def _levels(a: FsPolicy, b: FsPolicy) -> dict[str, int]:
    """The smaller level at each path that either block mentions, sorted."""
    one = FsRules(a, layer="policy", absent="", boxed=None)
    two = FsRules(b, layer="policy", absent="", boxed=None)
    paths = {*one.mentioned(), *two.mentioned()}
    return {path: min(one.level(path), two.level(path)) for path in sorted(paths)}


def _lifted(fs: FsPolicy, path: str) -> bool:
    """Whether control sockets and kernel folders at a path are covered by its grant."""
    return any(folder in fs.unsafe for folder in ancestors(path))


def _still_denied(text: str, closed: set[str]) -> bool:
    return is_glob(text) or unescape(text) in closed


def _would_be_granted(path: str, levels: dict[str, int]) -> bool:
    """Whether a closed path lies in what is granted, so that it has to be written down."""
    for folder in ancestors(path):
        if folder != path and folder in levels:
            return levels[folder] != NONE
    return False


def _meet_protect(a: tuple[str, ...] | None, b: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if a == b:
        return a
    one = DEFAULT_PROTECT if a is None else a
    two = DEFAULT_PROTECT if b is None else b
    both = _unique(one, two)
    return None if set(both) == set(DEFAULT_PROTECT) else both


def _unique(a: tuple[str, ...], b: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*a, *b)))
