"""Find allowed programs on the host, with all they need to start.

Touches the file system, reads only.
"""

from __future__ import annotations

import glob
import os
import posixpath
import re
import stat
from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from axonkernel.policy.profiles import needs_of

__all__ = [
    "Program",
    "find_program",
    "missing_interpreters",
    "own_folders",
    "own_tree",
    "search_path",
    "with_needs",
]

_VERSION = re.compile(r"^(?P<stem>[A-Za-z+]+?)-?(?P<version>\d+(\.\d+)*)$")
_MAX_LINKS = 40


class Program(NamedTuple):
    """One program on the host.

    Arguments:
        name: as the policy has it.
        links: (link, target) pairs followed from the name to the file, in order.
        file: the real file.
        brought_by: the program that needs this one, or "" when the policy names it.
    """

    name: str
    links: tuple[tuple[str, str], ...]
    file: str
    brought_by: str = ""


def search_path(folders: Iterable[str], agent_writes: Iterable[str] = ()) -> tuple[str, ...]:
    """The folders of a PATH that may be trusted to name programs.

    Relative, missing, foreign-writable and agent-writable ones are left out: what they hold
    could be replaced between the decision and the run.
    """
    writes = tuple(agent_writes)
    kept: list[str] = []
    absolute = (folder for folder in folders if folder.startswith("/"))
    for folder in (real for each in absolute for real in _behind_shims(each)):
        if folder in kept:
            continue
        if any(folder == write or folder.startswith(write + "/") for write in writes):
            continue
        if _only_ours(folder):
            kept.append(folder)
    return tuple(kept)


def _behind_shims(folder: str) -> Iterator[str]:
    """The real folder of programs; for a version manager's shims, those they start."""
    real = os.path.realpath(folder)
    root = _shims_root(real)
    if root is None:
        yield real
        return
    for version in _versions(root):
        yield os.path.realpath(f"{root}/versions/{version}/bin")


def _shims_root(folder: str) -> str | None:
    """ROOT of a folder ROOT/shims as pyenv, rbenv and their kin make it, else None.

    A shim is a script that runs ROOT/versions/V/bin/NAME with V from ROOT/version.
    """
    root, name = posixpath.split(folder)
    return root if name == "shims" and os.path.isdir(f"{root}/versions") else None


def _versions(root: str) -> list[str]:
    try:
        with open(f"{root}/version", encoding="utf-8") as file:
            return [word for word in file.read().split() if "/" not in word]
    except OSError:
        return []


def _only_ours(folder: str) -> bool:
    try:
        status = os.stat(folder)
    except OSError:
        return False
    ours = status.st_uid in (0, os.getuid())
    return stat.S_ISDIR(status.st_mode) and ours and not status.st_mode & stat.S_IWOTH


def find_program(name: str, path: Iterable[str], brought_by: str = "") -> Program | None:
    """The program a name stands for: a bare name on ``path``, or an absolute path."""
    candidates = [name] if "/" in name else [f"{folder}/{name}" for folder in path]
    for candidate in candidates:
        target = _behind_shim(candidate)
        if target is None or not os.path.isfile(target) or not os.access(target, os.X_OK):
            continue
        links = tuple(_links(candidate, target))
        return Program(name, links, os.path.realpath(target), brought_by)
    return None


def _behind_shim(candidate: str) -> str | None:
    """What a shim named by its path starts; the candidate itself when it is none."""
    folder, name = posixpath.split(candidate)
    if _shims_root(folder) is None:
        return candidate
    targets = (f"{real}/{name}" for real in _behind_shims(folder))
    return next((target for target in targets if os.access(target, os.X_OK)), None)


def _links(candidate: str, target: str) -> Iterator[tuple[str, str]]:
    """Links to make; their folders are real ones, since /bin may itself be a link."""
    if candidate != target:
        yield _in_real_folder(candidate), target
    for _ in range(_MAX_LINKS):
        target = _in_real_folder(target)
        if not os.path.islink(target):
            return
        read = os.readlink(target)
        yield target, read
        target = posixpath.join(posixpath.dirname(target), read)


def _in_real_folder(path: str) -> str:
    folder, name = posixpath.split(path)
    return posixpath.join(os.path.realpath(folder), name)


def with_needs(
    programs: Iterable[Program], path: tuple[str, ...], denied: Container[str] = ()
) -> tuple[tuple[Program, ...], tuple[str, ...]]:
    """The programs with those they bring, and the folders they read.

    A script brings its interpreter; profiles name the rest. What is ``denied``, by name or
    file, nothing brings.
    """
    found: dict[str, Program] = {}
    folders: dict[str, None] = {}
    waiting = list(programs)
    while waiting:
        for program in waiting:
            found.setdefault(program.name, program)
        # Again for all: what one needs may depend on the others that are there.
        needed = {
            need: program.brought_by or program.name
            for program in reversed(tuple(found.values()))
            for need in _needs(program, found)
        }
        waiting = []
        for need, brought_by in needed.items():
            if need.startswith("/") and not _is_program(need):
                # A pattern stands for the versions that are there.
                folders.update(dict.fromkeys(sorted(glob.glob(need))))
            elif need not in found and need not in denied:
                other = find_program(need, path, brought_by)
                waiting += [other] if other is not None and other.file not in denied else []
    return tuple(found.values()), tuple(folders)


def own_folders(programs: Iterable[Program], others: Iterable[Program]) -> Iterator[str]:
    """The folders that profiles say programs cannot work without, and ``others`` can."""
    theirs = {folder for program in others for folder in _named_folders(program)}
    found = (folder for program in programs for folder in _named_folders(program))
    return (folder for folder in dict.fromkeys(found) if folder not in theirs)


def _named_folders(program: Program) -> Iterator[str]:
    for need in needs_of(posixpath.basename(program.name)):
        if need.startswith("/") and os.path.isdir(need):
            yield os.path.realpath(need)


def _is_program(path: str) -> bool:
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _needs(program: Program, there: Container[str]) -> Iterator[str]:
    names = {posixpath.basename(program.file), posixpath.basename(program.name)}
    for name in sorted(names):
        match = _VERSION.match(name)
        stem, version = (match["stem"], match["version"]) if match else (name, "")
        for need in needs_of(stem, there):
            yield need.format(version=version)
    yield from own_tree(posixpath.dirname(program.file))
    yield from _package(program)
    yield from _shebang(program.file)


def _package(program: Program) -> Iterator[str]:
    """The lib folder beside the bin folder that a name lies in, where it leads there: a package
    of node's, of which the program is only the first file."""
    for link, _ in program.links:
        for folder in own_tree(posixpath.dirname(link)):
            if program.file.startswith(f"{folder}/"):
                yield folder


def missing_interpreters(programs: Iterable[Program], path: tuple[str, ...]) -> Iterator[str]:
    """A line for each script among ``programs`` that nothing on this machine can run."""
    for program in programs:
        for interpreter in _shebang(program.file):
            if find_program(interpreter, path) is None:
                yield f"{program.name}: its interpreter {interpreter} is not on this machine"


def own_tree(folder: str) -> Iterator[str]:
    """What lies beside a bin folder outside the system's: a virtual environment, nvm."""
    prefix, name = posixpath.split(folder)
    if prefix not in ("/", "/usr", "/usr/local") and name in ("bin", "sbin"):
        yield from (path for path in (f"{prefix}/lib", f"{prefix}/pyvenv.cfg")
                    if os.path.exists(path))  # fmt: skip


def _shebang(file: str) -> Iterator[str]:
    try:
        with open(file, "rb") as content:
            first = content.read(512).split(b"\n", 1)[0]
    except OSError:
        return
    if not first.startswith(b"#!"):
        return
    words = first[2:].decode("utf-8", "surrogateescape").split()
    yield from words[:1]
    if len(words) > 1 and posixpath.basename(words[0]) == "env":
        yield next((word for word in words[1:] if not word.startswith("-")), "env")
