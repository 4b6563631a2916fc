"""What this machine can hold: pieces, found out by doing (trials.py), kept until the next boot.

``require`` is the gate of ``auto`` and ``strict``; ``unenforced`` is what ``best-effort`` goes
without. A launch only reads the kept answer, so this file imports the standard library alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable, Iterable
from typing import NamedTuple

from axonkernel.box.programs import find
from axonkernel.errors import IsolationUnavailable

__all__ = ["NEEDS", "Piece", "Probe", "probe", "require", "unenforced"]

_FORMAT = 2
_BOX = ("linux", "box", "seccomp")
#: Declared field (or part of one) to the pieces that hold it.
NEEDS: dict[str, tuple[str, ...]] = {
    "box": _BOX,
    "fs": _BOX,
    "shell": _BOX,
    "env": _BOX,
    "net": (*_BOX, "table"),
    "net.link": (*_BOX, "table", "link"),
    'net.link = "veth"': (*_BOX, "table", "veth"),
    "limits": (*_BOX, "limits"),
    "limits.memory": (*_BOX, "limits"),
    "limits.cpu": (*_BOX, "limits"),
    "limits.pids": (*_BOX, "limits"),
    # The supervisor's clock, the size of a mount, the mediator.
    "limits.wall": _BOX,
    "limits.disk": _BOX,
    "limits.output": _BOX,
    # Asked for by strict; else the filter is looked at a moment later (box/unheld.py).
    "release": (*_BOX, "gate"),
}
#: What lets this process make namespaces, or not; the same home may be used in a container.
_ALLOWED = (
    "/proc/sys/user/max_user_namespaces",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
)
_CONFINED = ("CapBnd", "NoNewPrivs", "Seccomp")
_OPTIONAL = ("gate", "veth", "landlock", "bindings")


class Piece(NamedTuple):
    """One thing the walls are made of.

    Arguments:
        name: what it is for, as in :data:`NEEDS`.
        ok: whether it worked when it was tried.
        missing: what is not there, in a word or two; "" when it worked.
        detail: what was seen.
        fix: the command or setting that brings it; "" when it worked.
    """

    name: str
    ok: bool
    missing: str = ""
    detail: str = ""
    fix: str = ""

    @property
    def optional(self) -> bool:
        """Whether every policy can be held without it."""
        return self.name in _OPTIONAL


class Probe(NamedTuple):
    """Every piece, and whether this answer was kept from an earlier run since boot."""

    pieces: tuple[Piece, ...]
    kept: bool = False

    def lacking(self, field: str) -> Piece | None:
        """The first piece a field lacks, or None. Raises KeyError for a field unknown here."""
        found = {piece.name: piece for piece in self.pieces}
        for name in NEEDS[field]:
            piece = found.get(name, Piece(name, False, name, "not tried"))
            if not piece.ok:
                return piece
        return None

    @property
    def complete(self) -> bool:
        """Whether a policy that declares everything can be held."""
        return all(piece.ok or piece.optional for piece in self.pieces)


def require(fields: Iterable[str], found: Probe) -> None:
    """Raise IsolationUnavailable for the first declared field that lacks a piece.

    A kept answer is not believed when it is bad: what was missing may be there by now.
    """
    fields = tuple(fields)
    for field in fields:
        piece = found.lacking(field)
        if piece is None:
            continue
        if found.kept:
            return require(fields, probe(refresh=True))
        raise IsolationUnavailable(_named(field), piece.missing, piece.fix)


def unenforced(fields: Iterable[str], found: Probe) -> dict[str, Piece]:
    """The declared fields that lack a piece, in order, each with that piece."""
    lacking = {field: found.lacking(field) for field in fields}
    return {_named(field): piece for field, piece in lacking.items() if piece is not None}


def _named(field: str) -> str:
    """A field without the value that tells its needs from those of others."""
    return field.partition(" = ")[0]


def probe(*, refresh: bool = False) -> Probe:
    """What this machine can hold. Takes up to a few seconds once per boot, then reads a file.

    Arguments:
        refresh: try again, whatever is kept.
    """
    kept = None if refresh else _read()
    if kept is None:
        kept = Probe(tuple(_tried()))
        _write(kept)
    return kept


def _tried() -> Iterable[Piece]:
    if sys.platform != "linux":
        fix = "run on Linux; elsewhere axonkernel is the mediator alone"
        yield Piece("linux", False, "Linux", sys.platform, fix)
        return
    yield Piece("linux", True, detail=os.uname().release)
    from axonkernel.box import trials

    code: bytes | None = None

    def compiled() -> str:
        nonlocal code
        code = trials.filter_code()
        return f"{len(code) // 8} instructions"

    yield _try("seccomp", compiled)
    yield _try("box", lambda: trials.box(code))
    yield _try("gate", trials.gate)
    yield _try("table", trials.table)
    yield _try("link", trials.link)
    yield _try("veth", trials.veth)
    yield _try("limits", trials.limits)
    yield _try("landlock", trials.landlock_abi)
    yield _try("bindings", trials.bindings)


def _try(name: str, trial: Callable[[], str]) -> Piece:
    from axonkernel.box.trials import Missing

    try:
        return Piece(name, True, detail=trial())
    except Missing as missing:
        return Piece(name, False, missing.piece, missing.detail, missing.fix)
    except (OSError, ValueError) as error:
        # A trial that cannot even be made is a piece that is not there.
        return Piece(name, False, name, f"{type(error).__name__}: {error}", "axonkernel doctor")


# -- the kept answer --------------------------------------------------------------------


def _key() -> list[str | None]:
    """What the answer depends on: a changed key makes it void."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        boot = file.read().strip()
    programs = [find(name) for name in ("bwrap", "nft", "pasta", "busctl", "apt-get")]
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    systemd = str(os.path.isdir("/run/systemd/system"))
    own = [str(_FORMAT), boot, str(os.geteuid()), sys.executable, runtime, systemd, *programs]
    return [*own, *map(_said, _ALLOWED), *_confined()]


def _said(file: str) -> str | None:
    try:
        with open(file, encoding="latin-1") as said:
            return said.read().strip()
    except OSError:
        return None


def _confined() -> list[str]:
    """What this process has given up, or was never given."""
    status = _said("/proc/self/status") or ""
    lines = (line.partition(":") for line in status.splitlines())
    return [value.strip() for name, _, value in lines if name in _CONFINED]


def _file() -> str:
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return f"{folder}/axonkernel/probe.json"


def _read() -> Probe | None:
    try:
        with open(_file(), encoding="utf-8") as file:
            data = json.load(file)
        if data["key"] == _key():
            return Probe(tuple(Piece(*piece) for piece in data["pieces"]), kept=True)
    except (OSError, ValueError, KeyError, TypeError):
        pass
    return None


def _write(found: Probe) -> None:
    path = _file()
    temporary = f"{path}.{os.getpid()}"
    # Without a home the probe is made anew each time.
    with contextlib.suppress(OSError):
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({"key": _key(), "pieces": found.pieces}, file)
        os.replace(temporary, path)
