"""What a plan needs to know of this host, read once and kept as a value.

Touches the file system, reads only. Standard library, errors and the policy's pure modules.
"""

from __future__ import annotations

import functools
import os
import posixpath
import pwd
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeVar

from axonkernel.box import devices, find, floor, gitconfig
from axonkernel.box.find import Program
from axonkernel.box.names import Absent, Entry, absent, entry_of, expand, other_names, sockets
from axonkernel.policy.globs import argument_glob, is_glob, path_glob, unescape
from axonkernel.policy.model import FsPolicy, Policy, ShellPolicy
from axonkernel.policy.protect import DEFAULT_PROTECT, GIT_FILE, is_folder_name

__all__ = ["Ask", "Entry", "Host", "User", "survey"]

_Item = TypeVar("_Item")


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


class Host(NamedTuple):
    """The host, as far as one plan is concerned.

    ``links``: where those of our own paths that are links lead; grants are resolved already.
    ``absent``: names that must not be made in write grants. ``sockets``: those of the host's
    that a box with a network wall would reach. ``git``: the name and address of
    the user, as a git configuration.
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
    absent: tuple[Absent, ...] = ()
    sockets: tuple[Entry, ...] = ()
    git: str = ""
    devices: tuple[str, ...] = ()
    missing_devices: tuple[str, ...] = ()
    missing_interpreters: tuple[str, ...] = ()


def survey(policy: Policy, ask: Ask, env: Mapping[str, str], run_as: User | None) -> Host:
    """Look at everything a plan for ``policy`` names; paths in it are already resolved."""
    fs = policy.fs or FsPolicy()
    writes = fs.write
    shell = policy.shell
    wanted = shell.path if shell and shell.path else env.get("PATH", os.defpath).split(":")
    path = find.search_path(wanted, writes)
    user = run_as or _myself()
    libraries = tuple(_library_folders())
    denied = tuple(expand(fs.deny, (*fs.read, *fs.write)))
    walled = shell is not None and shell.allow is not True
    bins = tuple(_bins(path))
    programs: tuple[Program, ...] = ()
    missing: tuple[str, ...] = ()
    folders = tuple(each for folder in bins for each in find.own_tree(folder))
    if shell is not None and walled:
        programs, folders, missing = _programs(shell, ask, path)
    shared = tuple(entry for entry in map(entry_of, floor.SHARED) if entry.kind != "missing")
    extra = tuple(map(entry_of, ask.read))
    own = (*(entry.path for entry in (*shared, *extra)), *folders, "/etc/resolv.conf")
    secret = map(os.path.realpath, (*ask.hide, *ask.state))
    nodes, missing_devices = devices.nodes(policy.box.devices)
    protected = _unique(_protected(fs))
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
        denied=_unique((*denied, *other_names(denied, (*fs.read, *fs.write)))),
        protected=protected,
        hidden=tuple(e for e in map(entry_of, secret) if e.kind != "missing"),
        bins=bins,
        walled=walled,
        programs=programs,
        program_folders=folders,
        missing_programs=missing,
        masked_programs=tuple(_masked(shell, libraries, path)),
        links=tuple((path, real) for path in own if (real := os.path.realpath(path)) != path),
        absent=_unique(_absent(fs, denied, protected)),
        sockets=tuple(_sockets(policy)),
        git=_git(user, programs, walled),
        devices=nodes,
        missing_devices=missing_devices,
        missing_interpreters=tuple(find.missing_interpreters(programs, path)),
    )


def _git(user: User, programs: Iterable[Program], walled: bool) -> str:
    """Who the user is to git, where git is there to be told."""
    there = not walled or any(program.name == "git" for program in programs)
    return gitconfig.identity(gitconfig.sources(user.home)) if there else ""


def _myself() -> User:
    uid, gid = os.getuid(), os.getgid()
    try:
        entry = pwd.getpwuid(uid)
    except KeyError:  # a container's --user often has no entry
        return User("agent", uid, gid, "/home/agent")
    return User(entry.pw_name, uid, gid, entry.pw_dir)


def _unique(items: Iterable[_Item]) -> tuple[_Item, ...]:
    return tuple(dict.fromkeys(items))


def _protected(fs: FsPolicy) -> Iterator[Entry]:
    patterns = _protect(fs)
    files = (GIT_FILE,) if patterns and GIT_FILE not in patterns else ()
    for entry in expand((*patterns, *files), fs.write):
        if not (files and entry.kind == "dir" and entry.path.endswith("/.git")):
            yield entry


def _protect(fs: FsPolicy) -> tuple[str, ...]:
    return DEFAULT_PROTECT if fs.protect is None else fs.protect


def _absent(fs: FsPolicy, denied: Iterable[Entry], protected: Iterable[Entry]) -> Iterator[Absent]:
    """What has to lie at names that a box could make and must not.

    Of the default list only the names by which a repository that is there runs programs: an
    empty file at every other would be in the way of people and programs outside.
    """
    held = [Absent(entry.path) for entry in denied if entry.kind == "missing"]
    for entry in protected:
        if entry.kind == "missing":
            kind: Literal["file", "dir"] = "dir" if is_folder_name(entry.path) else "file"
            held.append(Absent(entry.path, (), kind, 0o755 if kind == "dir" else 0o444))
        elif repository := _repository(entry.path):
            held += _git_names(repository, _protect(fs))
    for name in held:
        if _is_written(name.path, fs) and (found := absent(name)) is not None:
            yield found


def _repository(config: str) -> str:
    """The folder of the repository whose configuration lies at a path; "" for other files."""
    folder, name = posixpath.split(config)
    is_one = folder.endswith("/.git") or "/.git/modules/" in folder
    return folder if name == "config" and is_one else ""


def _git_names(repository: str, patterns: tuple[str, ...]) -> Iterator[Absent]:
    """git dies of an empty ``commondir``; one that names its own folder changes nothing."""
    found = (
        Absent(f"{repository}/commondir", (), "file", 0o444, ".\n"),
        Absent(f"{repository}/hooks", (), "dir", 0o755),
    )
    tests = [path_glob(pattern) for pattern in patterns]
    return (name for name in found if any(matches(name.path) for matches in tests))


def _is_written(path: str, fs: FsPolicy) -> bool:
    """Whether the grant a path lies in, the innermost, is one to write."""
    around = [
        grant
        for grant in (*fs.read, *fs.write)
        if grant == "/" or path.startswith(f"{grant}/")
    ]  # fmt: skip
    return bool(around) and max(around, key=len) in fs.write


def _sockets(policy: Policy) -> Iterator[Entry]:
    """Sockets count where the policy says what may be connected to."""
    fs, net = policy.fs, policy.net
    if fs is not None and net is not None and net.unix == "box":
        yield from sockets((*fs.read, *fs.write))


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
    files = {each.file for name in denied if (each := find.find_program(name, path))}
    return (*find.with_needs(programs, path, denied | files), missing)


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
