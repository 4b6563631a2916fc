"""Landlock by ctypes: what a process gives up by itself, for good; standard library only.

It names no file away: what is not granted can still be looked at by name and stat, but not
opened, listed, made, changed or executed. TCP is told apart by port only.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable, Iterator

from axonkernel.box.linux import no_new_privs, syscall
from axonkernel.typed import Final, NamedTuple

__all__ = [
    "TRUSTED_SINCE_ABI",
    "Paths",
    "Rules",
    "abi",
    "close_abstract_sockets",
    "close_signals",
    "confine",
    "restrict",
    "rules",
    "ruleset",
]

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION = 1  # flag of create_ruleset: answer the ABI number
_PATH_BENEATH, _NET_PORT = 1, 2  # the kind of rule
_SCOPE_ABSTRACT_UNIX, _SCOPE_SIGNAL = 1, 2
_SCOPES_SINCE_ABI = 6
_TCP_SINCE_ABI, _BIND_TCP, _CONNECT_TCP = 4, 1, 2

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_READ = _EXECUTE | _READ_FILE | _READ_DIR
#: All rights that each ABI knows.
_KNOWN: Final = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_KNOWN_NOW: Final = (1 << 16) - 1
#: Before it, what must not be written could still be emptied.
TRUSTED_SINCE_ABI = 3


class Paths(NamedTuple):
    """What stays in reach: files, and folders with everything below them.

    Arguments:
        read: may be read and executed.
        write: may be changed as well.
    """

    read: tuple[str, ...] = ()
    write: tuple[str, ...] = ()


def abi() -> int:
    """The Landlock ABI of this kernel, 0 when there is none."""
    try:
        return syscall(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def close_abstract_sockets() -> bool:
    """This process and what it starts reach no abstract socket made outside.

    For boxes that keep the host's network namespace, in which the host's abstract sockets
    would be in reach. Returns False where the kernel cannot (Landlock below ABI 6).
    """
    if abi() < _SCOPES_SINCE_ABI:
        return False
    handled_fs, handled_net = 0, 0  # mounting stays possible, as bwrap needs it
    _take(_create(handled_fs, handled_net, _SCOPE_ABSTRACT_UNIX))
    return True


def close_signals() -> bool:
    """This process and what it starts can signal nobody else.

    Returns False where the kernel cannot (Landlock below ABI 6).
    """
    if abi() < _SCOPES_SINCE_ABI:
        return False
    _take(_create(0, 0, _SCOPE_SIGNAL))
    return True


def confine(paths: Paths, *, tcp: bool) -> None:
    """Keep this process and what it starts to ``paths``; see :func:`ruleset`."""
    _take(ruleset(paths, tcp=tcp))


def ruleset(paths: Paths, *, tcp: bool) -> int:
    """A descriptor of rules that keep whoever takes them (:func:`restrict`) to ``paths``.

    Signals and abstract sockets are kept to themselves as well, where the kernel can (ABI 6).
    Paths that do not exist are left out, and links in folders that may be written. It costs
    10 us a path, and can be taken any number of times at the same price whatever it holds.

    Arguments:
        tcp: False closes TCP, where the kernel can (ABI 4).

    Raises OSError where the kernel has no Landlock.
    """
    version = abi()
    known = _KNOWN.get(version, _KNOWN_NOW)
    network = _BIND_TCP | _CONNECT_TCP if not tcp and version >= _TCP_SINCE_ABI else 0
    scopes = _SCOPE_ABSTRACT_UNIX | _SCOPE_SIGNAL if version >= _SCOPES_SINCE_ABI else 0
    fd = _create(known, network, scopes)
    for path, rights in _rights(paths, known):
        _allow(fd, path, rights, paths.write)
    return fd


class Rules(NamedTuple):
    """What a worker keeps.

    Arguments:
        grants: (path, rights): ``r`` read, ``w`` change as well, ``l`` only list folders, ``x``
            execute. Absolute, without links: what leads elsewhere by now is left out.
        files: everything else is closed.
        programs: nothing else is executed, also where ``files`` is not set.
        ports: TCP ports that may be connected to, on any address; None for all.
    """

    grants: tuple[tuple[str, str], ...] = ()
    files: bool = False
    programs: bool = False
    ports: tuple[int, ...] | None = None


def rules(wanted: Rules) -> int:
    """A descriptor of rules as :func:`ruleset` makes it, for a worker.

    Raises OSError where the kernel has no Landlock.
    """
    version = abi()
    known = _KNOWN.get(version, _KNOWN_NOW)
    handled = known if wanted.files else _EXECUTE if wanted.programs else 0
    network = _CONNECT_TCP if wanted.ports is not None and version >= _TCP_SINCE_ABI else 0
    scopes = _SCOPE_ABSTRACT_UNIX | _SCOPE_SIGNAL if version >= _SCOPES_SINCE_ABI else 0
    fd = _create(handled, network, scopes)
    letters = {
        "l": _READ_DIR, "r": _READ_FILE | _READ_DIR, "w": known & ~_EXECUTE, "x": _EXECUTE,
    }  # fmt: skip
    for path, rights in wanted.grants if handled else ():
        access = 0
        for letter in rights:
            access |= letters[letter]
        if access & handled:
            _allow(fd, path, access & handled, ("/",))
    for port in (wanted.ports or ()) if network else ():
        syscall(_ADD_RULE, fd, _NET_PORT, struct.pack("QQ", _CONNECT_TCP, port), 0)
    return fd


def restrict(ruleset: int) -> None:
    """Take the rules behind a descriptor, for good; also in what is started from now on."""
    no_new_privs()
    syscall(_RESTRICT_SELF, ruleset, 0)


def _rights(paths: Paths, known: int) -> Iterator[tuple[str, int]]:
    yield from ((path, _READ) for path in paths.read)
    yield from ((path, known) for path in paths.write)


def _allow(ruleset: int, path: str, rights: int, written: tuple[str, ...]) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        # What may be written may have been made a link meanwhile, to anywhere.
        if os.readlink(f"/proc/self/fd/{fd}") != path and _lies_in(path, written):
            return
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _ON_FILES
        if not rights:
            return
        rule = struct.pack("=Qi", rights, fd)
        syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0)
    finally:
        os.close(fd)


def _lies_in(path: str, folders: tuple[str, ...]) -> bool:
    return any(path.startswith(f"{folder.rstrip('/')}/") for folder in folders)


def _create(handled_fs: int, handled_net: int, scopes: int) -> int:
    """A new ruleset. A kernel that knows fewer fields gets fewer: more would be E2BIG."""
    fields: Iterable[int] = (handled_fs, handled_net, scopes)
    count = 3 if scopes else 2 if handled_net else 1
    attributes = struct.pack("<QQQ", *fields)[: 8 * count]
    return syscall(_CREATE_RULESET, attributes, len(attributes), 0)


def _take(ruleset: int) -> None:
    restrict(ruleset)
    os.close(ruleset)
