"""What a plan needs to know of this host, read once and kept as a value.

Touches the file system, reads only. Standard library, errors and the policy's pure modules.
"""

from __future__ import annotations

import contextlib
import functools
import os
import posixpath
import pwd
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeVar

from axonkernel.box import find, floor
from axonkernel.box.find import Program
from axonkernel.errors import BoxError
from axonkernel.policy.globs import argument_glob, is_glob, path_glob, unescape
from axonkernel.policy.model import FsPolicy, Policy, ShellPolicy
from axonkernel.policy.protect import DEFAULT_PROTECT, GIT_FILE

__all__ = ["Ask", "Entry", "Host", "User", "survey"]

#: A glob in fs.deny or fs.protect is expanded over at most this many names.
MAX_NAMES = 1_000_000
#: A grant of a folder above does not bring these: the box has its own.
_REPLACED = ("/dev", "/proc", "/run", "/sys", "/tmp", "/var/tmp")

Test = Callable[[str], bool]

_Item = TypeVar("_Item")
Kind = Literal["file", "dir", "other", "missing"]


class Ask(NamedTuple):
    """What a box is wanted for.

    Arguments:
        role: a program of one call, a whole agent, or a command that is the agent.
        cwd: absolute working directory wished for.
        program: a program that must exist whatever ``shell`` says (the command of exec).
        read: more paths that must be readable (the agent's entry file, this package).
        hide: files that must not exist or be read inside (policy files).
        state: folders of axonkernel's own state.
    """

    role: Literal["call", "agent", "exec"]
    cwd: str
    program: str | None = None
    read: tuple[str, ...] = ()
    hide: tuple[str, ...] = ()
    state: tuple[str, ...] = ()


class User(NamedTuple):
    """Whom the agent runs as."""

    name: str
    uid: int
    gid: int
    home: str


class Entry(NamedTuple):
    """A path and what it is, links followed."""

    path: str
    kind: Kind


class Host(NamedTuple):
    """The host, as far as one plan is concerned.

    ``links``: where those of our own paths that are links lead; grants are resolved already.
    """

    user: User
    switch_user: bool
    env: tuple[tuple[str, str], ...]
    path: tuple[str, ...]
    usr_links: tuple[tuple[str, str], ...]
    kernel_files: tuple[str, ...]
    libraries: tuple[str, ...]
    shared: tuple[Entry, ...]
    copied: tuple[str, ...]
    grants: tuple[Entry, ...]
    extra: tuple[Entry, ...]
    denied: tuple[Entry, ...]
    protected: tuple[Entry, ...]
    hidden: tuple[Entry, ...]
    bins: tuple[str, ...]
    walled: bool
    programs: tuple[Program, ...]
    program_folders: tuple[str, ...]
    missing_programs: tuple[str, ...]
    masked_programs: tuple[str, ...]
    links: tuple[tuple[str, str], ...]


def survey(policy: Policy, ask: Ask, env: Mapping[str, str], run_as: User | None) -> Host:
    """Look at everything a plan for ``policy`` names; paths in it are already resolved."""
    fs = policy.fs or FsPolicy()
    writes = fs.write
    shell = policy.shell
    wanted = shell.path if shell and shell.path else env.get("PATH", os.defpath).split(":")
    path = find.search_path(wanted, writes)
    user = run_as or _myself()
    libraries = tuple(_library_folders())
    denied = tuple(_expand(fs.deny, (*fs.read, *fs.write)))
    walled = shell is not None and shell.allow is not True
    bins = tuple(_bins(path))
    programs: tuple[Program, ...] = ()
    missing: tuple[str, ...] = ()
    folders = tuple(each for folder in bins for each in find.own_tree(folder))
    if shell is not None and walled:
        programs, folders, missing = _programs(shell, ask, path)
    shared = tuple(entry for entry in map(entry_of, floor.SHARED) if entry.kind != "missing")
    extra = tuple(map(entry_of, ask.read))
    own = (*(entry.path for entry in (*shared, *extra)), *folders)
    return Host(
        user=user,
        switch_user=run_as is not None,
        env=tuple(sorted(env.items())),
        path=path,
        usr_links=tuple(_usr_links()),
        kernel_files=tuple(_kernel_files(user)),
        libraries=libraries,
        shared=shared,
        copied=tuple(path for path in floor.COPIED if os.path.isfile(path)),
        grants=tuple(map(entry_of, _unique((*fs.read, *fs.write, *fs.unsafe)))),
        extra=extra,
        denied=_unique((*denied, *_other_names(denied, (*fs.read, *fs.write)))),
        protected=_unique(_protected(fs)),
        hidden=tuple(e for e in map(entry_of, (*ask.hide, *ask.state)) if e.kind != "missing"),
        bins=bins,
        walled=walled,
        programs=programs,
        program_folders=folders,
        missing_programs=missing,
        masked_programs=tuple(_masked(shell, libraries, path)),
        links=tuple((path, real) for path in own if (real := os.path.realpath(path)) != path),
    )


def _myself() -> User:
    uid, gid = os.getuid(), os.getgid()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:  # a container's --user often has no entry
        return User("agent", uid, gid, "/home/agent")
    return User(entry.pw_name, uid, gid, entry.pw_dir)


def entry_of(path: str) -> Entry:
    """What a path is now, links followed."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return Entry(path, "missing")
    if stat.S_ISDIR(mode):
        return Entry(path, "dir")
    return Entry(path, "file" if stat.S_ISREG(mode) else "other")


def _unique(items: Iterable[_Item]) -> tuple[_Item, ...]:
    return tuple(dict.fromkeys(items))


def _protected(fs: FsPolicy) -> Iterator[Entry]:
    patterns = _protect(fs)
    files = (GIT_FILE,) if patterns and GIT_FILE not in patterns else ()
    for entry in _expand((*patterns, *files), fs.write):
        if not (files and entry.kind == "dir" and entry.path.endswith("/.git")):
            yield entry


def _protect(fs: FsPolicy) -> tuple[str, ...]:
    return DEFAULT_PROTECT if fs.protect is None else fs.protect


def _programs(
    shell: ShellPolicy, ask: Ask, path: tuple[str, ...]
) -> tuple[tuple[Program, ...], tuple[str, ...], tuple[str, ...]]:
    denied = set(_by_name(shell.deny, path))
    allowed = [name for name in _by_name(shell.allow, path) if name not in denied]
    names = _unique((*allowed, *([ask.program] if ask.program else [])))
    found = {name: find.find_program(name, path) for name in names}
    # Of a command given by its path, what starts it says what is wrong with the file.
    own = {ask.program} - set(allowed) if ask.program and "/" in ask.program else set()
    missing = tuple(n for n, program in found.items() if program is None and n not in own)
    programs = [program for program in found.values() if program is not None]
    return (*find.with_needs(programs, path), missing)


def _masked(
    shell: ShellPolicy | None, libraries: tuple[str, ...], path: tuple[str, ...]
) -> Iterator[str]:
    """Programs to take out where they lie among what must be there."""
    if shell is None:
        return
    if shell.allow is not True:
        yield from _library_programs(libraries)
        return
    for name in _by_name(shell.deny, path):
        program = find.find_program(name, path)
        if program is not None:
            yield program.file


def _by_name(patterns: tuple[str, ...] | Literal[True], path: tuple[str, ...]) -> Iterator[str]:
    """The names a list stands for; globs are matched against what is on PATH."""
    for pattern in () if patterns is True else patterns:
        if "/" in pattern or not is_glob(pattern):
            yield unescape(pattern)
            continue
        matches = argument_glob(pattern)
        for folder in path:
            for name in sorted(os.listdir(folder)):
                if matches(name):
                    yield name


def _kernel_files(user: User) -> Iterator[str]:
    """What steers the kernel and belongs to uid 0, which it asks for no capability: a write
    to /proc/sys/kernel/core_pattern would run a program outside the box."""
    names = floor.KERNEL_FILES if user.uid == 0 else ()
    return (path for path in ("/sys", *names) if os.path.exists(path))


def _usr_links() -> Iterator[tuple[str, str]]:
    for name in floor.USR_LINKS:
        if os.path.islink(f"/{name}"):
            yield f"/{name}", os.readlink(f"/{name}")


def _bins(path: tuple[str, ...]) -> Iterator[str]:
    seen: set[str] = set()
    for folder in (*floor.BIN_FOLDERS, *path):
        real = os.path.realpath(folder)
        if os.path.isdir(real) and real not in seen:
            seen.add(real)
            yield real


def _library_folders() -> Iterator[str]:
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


def _library_programs(folders: tuple[str, ...]) -> tuple[str, ...]:
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


def _expand(patterns: tuple[str, ...], grants: Iterable[str]) -> Iterator[Entry]:
    """What deny and protect patterns stand for below the grants; missing literals too.

    Links are followed: a mount covers what a name stands for.
    """
    by_name: dict[str, list[Test]] = {}
    others: list[Test] = []
    for pattern in patterns:
        if not is_glob(pattern):
            yield entry_of(_real(unescape(pattern)))
        elif is_glob(last := posixpath.basename(pattern)):
            others.append(path_glob(pattern))
        else:
            by_name.setdefault(unescape(last), []).append(path_glob(pattern))
    if not by_name and not others:
        return
    for path in _walk(grants):
        tests = (*by_name.get(posixpath.basename(path), ()), *others)
        if any(matches(path) for matches in tests):
            yield entry_of(_real(path))


def _real(path: str) -> str:
    """Links followed. Raises BoxError when one is exchanged at this very moment."""
    try:
        return os.path.realpath(path)
    except OSError as error:
        raise BoxError("mounts", f"{path}: {error.strerror}") from error


def _other_names(denied: Iterable[Entry], grants: Iterable[str]) -> Iterator[Entry]:
    """Other hard links of denied files among the grants: a mask covers one name only."""
    linked: set[tuple[int, int]] = set()
    for entry in denied:
        if entry.kind in ("file", "other"):
            status = os.stat(entry.path)
            if status.st_nlink > 1:
                linked.add((status.st_dev, status.st_ino))
    for path in _walk(grants) if linked else ():
        with contextlib.suppress(OSError):  # it went away during the walk
            status = os.lstat(path)
            if (status.st_dev, status.st_ino) in linked:
                yield entry_of(path)


def _walk(grants: Iterable[str]) -> Iterator[str]:
    """Every name below the grants. Raises BoxError past MAX_NAMES: a pattern half expanded
    would leave the rest in reach. What a box replaces is left out."""
    count = 0
    for grant in _unique(grants):
        yield grant
        for where, folders, names in os.walk(grant):
            where = where.rstrip("/")
            folders[:] = [name for name in folders if f"{where}/{name}" not in _REPLACED]
            count += len(folders) + len(names)
            if count > MAX_NAMES:
                raise BoxError(
                    "mounts",
                    f"more than {MAX_NAMES} names below {grant}: the patterns of fs.deny and "
                    "fs.protect cannot be held there; grant folders further down",
                )
            for name in (*folders, *names):
                yield f"{where}/{name}"
