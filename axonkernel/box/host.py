"""What a plan needs to know of this host, read once and kept as a value.

Touches the file system, reads only. Standard library, errors and the policy's pure modules.
"""

from __future__ import annotations

import os
import posixpath
import pwd
from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple, TypeVar

from axonkernel.box import devices, find, floor, gitconfig, shim
from axonkernel.box.find import Program
from axonkernel.box.libraries import library_folders, library_programs
from axonkernel.box.names import Absent, Entry, entry_of
from axonkernel.box.taken import absent_names, denied_names, host_sockets, protected_names
from axonkernel.errors import IsolationUnavailable
from axonkernel.policy.brokered import can_ask, is_interpreter, judged_names, runs_others
from axonkernel.policy.globs import argument_glob, is_glob, unescape
from axonkernel.policy.model import FsPolicy, Policy, ShellPolicy

__all__ = ["Ask", "Entry", "Host", "User", "brokered_programs", "survey"]

_Item = TypeVar("_Item")
_RESOLV_CONF = "/etc/resolv.conf"


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
    the user, as a git configuration. ``brokered``: programs in whose place ``shim`` lies, and
    folders that only they need. ``judged_inside``: others with argument rules.
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
    brokered: tuple[Program, ...] = ()
    brokered_folders: tuple[str, ...] = ()
    shim: str = ""
    judged_inside: tuple[str, ...] = ()
    resolv_conf: bool = True


def survey(policy: Policy, ask: Ask, env: Mapping[str, str], run_as: User | None) -> Host:
    """Look at everything a plan for ``policy`` names; paths in it are already resolved."""
    fs = policy.fs or FsPolicy()
    shell = policy.shell
    path = _search_path(policy, env)
    user = run_as or _myself()
    libraries = tuple(library_folders())
    denied = _unique(denied_names(fs))
    walled = shell is not None and shell.allow is not True
    bins = tuple(_bins(path))
    programs: tuple[Program, ...] = ()
    missing: tuple[str, ...] = ()
    folders = tuple(each for folder in bins for each in find.own_tree(folder))
    brokered, inside = _judged(policy, ask, path)
    if shell is not None and walled:
        programs, folders, missing = _programs(shell, ask, path, brokered)
    shared = tuple(entry for entry in map(entry_of, floor.SHARED) if entry.kind != "missing")
    extra = tuple(map(entry_of, ask.read))
    own = (*(entry.path for entry in (*shared, *extra)), *folders, _RESOLV_CONF)
    secret = map(os.path.realpath, (*ask.hide, *ask.state))
    nodes, missing_devices = devices.nodes(policy.box.devices)
    protected = _unique(protected_names(fs))
    return Host(
        user=user,
        switch_user=run_as is not None,
        env=tuple(sorted(env.items())),
        path=path,
        usr_links=tuple(_usr_links()),
        kernel_files=tuple(_kernel_files(user)),
        libraries=libraries,
        shared=shared,
        copied=tuple(path for path in _copied(policy) if os.path.isfile(path)),
        grants=tuple(map(entry_of, _unique((*fs.read, *fs.write, *fs.unsafe)))),
        extra=extra,
        denied=denied,
        protected=protected,
        hidden=tuple(e for e in map(entry_of, secret) if e.kind != "missing"),
        bins=bins,
        walled=walled,
        programs=programs,
        program_folders=folders,
        missing_programs=missing,
        masked_programs=tuple(_masked(shell, libraries, path)),
        links=tuple((path, real) for path in own if (real := os.path.realpath(path)) != path),
        absent=_unique(absent_names(fs, denied, protected)),
        sockets=tuple(host_sockets(policy)),
        git=_git(user, programs, walled),
        devices=nodes,
        missing_devices=missing_devices,
        missing_interpreters=tuple(find.missing_interpreters(programs, path)),
        brokered=brokered,
        brokered_folders=tuple(find.own_folders(brokered, programs)),
        shim=_shim() if brokered else "",
        judged_inside=tuple(program.name for program in inside),
        resolv_conf=os.path.isfile(_RESOLV_CONF),
    )


def _copied(policy: Policy) -> tuple[str, ...]:
    """On the host's own network names are asked of the host's resolvers."""
    return floor.COPIED if policy.net is not None else (*floor.COPIED, _RESOLV_CONF)


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


def brokered_programs(policy: Policy, ask: Ask, env: Mapping[str, str]) -> tuple[Program, ...]:
    """The programs that the box which is asked for starts only through its supervisor."""
    return _judged(policy, ask, _search_path(policy, env))[0]


def _search_path(policy: Policy, env: Mapping[str, str]) -> tuple[str, ...]:
    shell = policy.shell
    wanted = shell.path if shell and shell.path else env.get("PATH", os.defpath).split(":")
    return find.search_path(wanted, policy.fs.write if policy.fs else ())


def _judged(
    policy: Policy, ask: Ask, path: tuple[str, ...]
) -> tuple[tuple[Program, ...], tuple[Program, ...]]:
    """The programs whose words a policy judges: those that a box asks for and does not hold,
    and those that it holds all the same.

    Those are what it was made for, where the words of that are code: the agent's interpreter, a
    command that is a shell. And what the agent can write: its words say nothing of what it does;
    and programs that only start others, such as env and make.
    """
    shell, writes = policy.shell, policy.fs.write if policy.fs else ()
    if shell is None or not shell.args or ask.role == "call":
        return (), ()
    denied = set(_by_name(shell.deny, path))
    names = (name for name in _by_name(judged_names(shell), path) if name not in denied)
    found = _unique(program for name in names if (program := find.find_program(name, path)))
    there = [each for each in found if shell.allow is True or _is_allowed(each, shell.allow)]
    asks = _shim() and can_ask(policy)
    kept = {os.path.realpath(entry) for entry in ask.read}
    if ask.program is not None and is_interpreter(ask.program):
        own = find.find_program(ask.program, path)
        kept |= {own.file} if own is not None else set()

    def is_brokered(program: Program) -> bool:
        written = (folder for folder in writes if folder != "/")
        own = program.file in kept or any(map(program.file.startswith, map(_slashed, written)))
        return bool(asks) and not own and not runs_others(program.name)

    return tuple(filter(is_brokered, there)), tuple(each for each in there if not is_brokered(each))


def _slashed(folder: str) -> str:
    return f"{folder}/"


def _shim() -> str:
    """What lies at the names of brokered programs; "" where none is for this machine."""
    try:
        return shim.path() if shim.packs() else ""
    except IsolationUnavailable:
        return ""


def _is_allowed(program: Program, allow: tuple[str, ...]) -> bool:
    names = {program.name, posixpath.basename(program.name), program.file}
    return any(
        argument_glob(entry)(name) if "/" not in entry else unescape(entry) == name
        for entry in allow
        for name in names
    )


def _programs(
    shell: ShellPolicy, ask: Ask, path: tuple[str, ...], brokered: tuple[Program, ...] = ()
) -> tuple[tuple[Program, ...], tuple[str, ...], tuple[str, ...]]:
    denied = set(_by_name(shell.deny, path))
    allowed = [name for name in _by_name(shell.allow, path) if name not in denied]
    names = _unique((*allowed, *([ask.program] if ask.program else [])))
    found = {name: find.find_program(name, path) for name in names}
    # Of a command given by its path, what starts it says what is wrong with the file.
    own = {ask.program} - set(allowed) if ask.program and "/" in ask.program else set()
    missing = tuple(n for n, program in found.items() if program is None and n not in own)
    elsewhere = {program.file for program in brokered}
    programs = [each for each in found.values() if each is not None and each.file not in elsewhere]
    files = {each.file for name in denied if (each := find.find_program(name, path))} | elsewhere
    return (*find.with_needs(programs, path, denied | files), missing)


def _masked(
    shell: ShellPolicy | None, libraries: tuple[str, ...], path: tuple[str, ...]
) -> Iterator[str]:
    """Programs to take out where they lie among what must be there."""
    if shell is None:
        return
    if shell.allow is not True:
        yield from library_programs(libraries)
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
