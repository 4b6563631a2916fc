"""Plans kept on disk, so that a repeated ``axonkernel exec`` parses and surveys nothing.

A plan is kept with the identity of every file and folder it was made from; when one of them
has changed the plan is made anew. Sockets below its grants, which no identity tells of, are
looked for again each time. Standard library only.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterable

from axonkernel.box.model import BoxPlan, decode_plan
from axonkernel.typed import Any, NamedTuple

try:
    from _blake2 import blake2b  # hashlib loads OpenSSL, which takes 3 ms of every launch
except ImportError:
    from hashlib import blake2b

__all__ = ["Seen", "key", "load", "load_more", "store"]

#: The folders of what makes plans: a new version of it must make them anew.
_BOX = os.path.dirname(os.path.abspath(__file__))
_MAKERS = (_BOX, os.path.join(os.path.dirname(_BOX), "policy"))
#: Identities of paths: inode, change of content or entries, kind and mode, number of hard
#: links; None when absent.
_Identities = list[list[int] | None]


class Seen(NamedTuple):
    """What a plan was made from.

    Arguments:
        paths: files and folders, present or not.
        grants: folders in which the sockets were looked for.
        sockets: those that were found.
    """

    paths: tuple[str, ...]
    grants: tuple[str, ...] = ()
    sockets: tuple[str, ...] = ()


def key(*parts: object) -> str:
    """The name of a plan: a digest of all that its maker was given."""
    text = json.dumps([_code(), os.getuid(), *parts], sort_keys=True, default=str)
    return blake2b(text.encode("utf-8", "surrogateescape"), digest_size=32).hexdigest()


def _code() -> list[int]:
    """When files were last added, replaced or removed there, as every installer does."""
    return [os.stat(folder).st_mtime_ns for folder in _MAKERS]


def load(name: str) -> BoxPlan | None:
    """The kept plan, if what it was made from is still as it was."""
    kept = load_more(name)
    return None if kept is None else kept[0]


def load_more(name: str) -> tuple[BoxPlan, Any] | None:
    """The kept plan as :func:`load` gives it, and what was kept with it."""
    try:
        with open(_path(name), encoding="utf-8") as file:
            kept = json.load(file)
        if _identities(kept["paths"]) != kept["seen"]:
            return None
        if kept["grants"] and _sockets(kept["grants"]) != kept["sockets"]:
            return None
        return decode_plan(kept["plan"]), kept["more"]
    except (OSError, ValueError, KeyError, TypeError):
        return None  # absent, or not ours: made anew


def store(name: str, plan: BoxPlan, seen: Seen, more: Any = None) -> None:
    """Keep a plan, and more JSON data made with it. A cache that cannot be written is none.

    A plan with the password of a proxy is not kept: a box may see this folder.
    """
    if plan.net is not None and "@" in plan.net.proxy:
        return
    watched = sorted(set(seen.paths))
    kept: dict[str, Any] = {
        "paths": watched,
        "seen": _identities(watched),
        "grants": seen.grants,
        "sockets": seen.sockets,
        "plan": plan,
        "more": more,
    }
    path = _path(name)
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        temporary = f"{path}.{os.getpid()}"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(fd, "w", encoding="utf-8") as file:
            json.dump(kept, file)
        os.replace(temporary, path)


def _path(name: str) -> str:
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(base, "axonkernel", "plans", f"{name}.json")


def _sockets(grants: Iterable[str]) -> list[str]:
    from axonkernel.box.names import sockets

    return sorted(entry.path for entry in sockets(grants))


def _identities(paths: Iterable[str]) -> _Identities:
    return [_identity(path) for path in paths]


def _identity(path: str) -> list[int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    # A second hard link of a denied file is denied as well.
    links = status.st_nlink
    return [status.st_dev, status.st_ino, status.st_mtime_ns, status.st_mode, links]
