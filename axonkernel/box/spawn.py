"""Start bwrap with its descriptors; standard library only.

Everything bwrap inherits is named here: bwrap hands whatever it inherits to the command, so
only 0, 1, 2, the channel and the descriptors its own options name (it closes those) may be
open.
"""

from __future__ import annotations

import base64
import os
import signal
import stat
from collections.abc import Callable
from typing import NamedTuple, NoReturn

from axonkernel.box import bwrap, landlock
from axonkernel.box.linux import close_on_exec_from, default_signals, die_with_parent
from axonkernel.box.model import BoxPlan, Command
from axonkernel.box.staging import Move, staged
from axonkernel.errors import BoxError

__all__ = ["Spawned", "spawn"]

#: bwrap takes 9,000 words, its own few and the command's included.
_MOST_OPTIONS = 8_800


class Spawned(NamedTuple):
    """A bwrap that makes its box and then waits for a byte.

    Arguments:
        pid: bwrap's outer process.
        status: where bwrap writes its JSON.
        hold: one byte written here lets it go on.
        moves: the mounts that are not in place yet.
    """

    pid: int
    status: int
    hold: int
    moves: tuple[Move, ...] = ()


def spawn(
    program: str,
    plan: BoxPlan,
    command: Command,
    given: tuple[int, ...],
    seize: Callable[[int], None],
) -> Spawned:
    """Start bwrap for ``plan``.

    Arguments:
        program: absolute path of bwrap.
        given: descriptors the command gets as 0, 1, 2 and perhaps 3; closed here.
        seize: called with the pid of what will be bwrap, before it does anything.

    Raises BoxError when a source cannot be opened.
    """
    reserved = _reserve(len(given))
    status_read, status_write = os.pipe()
    hold_read, hold_write = os.pipe()
    # bwrap gets a pipe it can also write: end-of-file would release it.
    block = os.open(f"/proc/self/fd/{hold_read}", os.O_RDWR | os.O_CLOEXEC)
    kept = [status_write, block]
    mounts, moves = staged(plan.mounts, plan.cwd if command.cwd is None else command.cwd)
    plan = plan._replace(mounts=mounts)
    try:
        options = _options(plan, command, kept, status_write, block)
        if len(options) > _MOST_OPTIONS:
            raise BoxError(
                "mounts",
                f"{len(plan.mounts)} entries are more than a box takes: patterns of fs.deny or "
                "fs.protect match too many names below the grants; deny folders instead",
            )
        kept.append(_holding(("\0".join(options) + "\0").encode("utf-8", "surrogateescape")))
        argv = [program, "--args", str(kept[-1]), *command.argv]
        pid = _forked(lambda: _become(argv, plan, kept, given), seize)
    finally:
        for fd in (*kept, *reserved, hold_read, *given):
            os.close(fd)
    return Spawned(pid, status_read, hold_write, moves)


def _forked(become: Callable[[], NoReturn], seize: Callable[[int], None]) -> int:
    """A child that does ``become`` once it is seized, or ends with this process."""
    warden = os.getpid()
    go_read, go_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        die_with_parent(signal.SIGKILL)
        os.close(go_write)
        if os.getppid() != warden or not os.read(go_read, 1):
            os._exit(125)
        become()
    os.close(go_read)
    try:
        seize(pid)
        os.write(go_write, b"1")
    finally:
        os.close(go_write)
    return pid


def _options(
    plan: BoxPlan, command: Command, kept: list[int], status: int, block: int
) -> list[str]:
    def descriptor(kind: str, value: str) -> int:
        if kind == "text":
            kept.append(_holding(value.encode("utf-8", "surrogateescape")))
        else:
            kept.append(_source(value, kind))
        return kept[-1]

    filter_fd = -1
    if plan.filter:
        filter_fd = _holding(base64.b64decode(plan.filter))
        kept.append(filter_fd)
    return bwrap.arguments(
        plan, command, descriptor, status_fd=status, block_fd=block, filter_fd=filter_fd
    )


def _source(path: str, kind: str) -> int:
    """A descriptor of a mount's source. What was surveyed is what is mounted: a link put in
    its place meanwhile, by another box with the same grant, would lead anywhere."""
    flags = os.O_RDONLY if kind == "read" else os.O_PATH | os.O_NOFOLLOW
    try:
        fd = os.open(path, flags | os.O_CLOEXEC)
    except OSError as error:
        raise BoxError("mounts", f"{path}: {error.strerror}") from error
    if kind != "read" and not _still(path, fd):
        os.close(fd)
        raise BoxError("mounts", f"{path} was replaced while the box was being made")
    return fd


def _still(path: str, fd: int) -> bool:
    """Whether what was opened lies there under its own name and is no link itself."""
    if stat.S_ISLNK(os.fstat(fd).st_mode):
        return False
    return os.readlink(f"/proc/self/fd/{fd}") == path


def _holding(content: bytes) -> int:
    fd = os.memfd_create("axonkernel")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _become(argv: list[str], plan: BoxPlan, kept: list[int], given: tuple[int, ...]) -> NoReturn:
    warden = os.getppid()
    try:
        for target, fd in enumerate(_above(given, len(given))):
            os.dup2(fd, target, inheritable=True)
        close_on_exec_from(len(given))
        default_signals()
        for fd in kept:
            os.set_inheritable(fd, True)
        if plan.run_as is not None:
            uid, gid = plan.run_as
            os.setgroups([])
            os.setresgid(gid, gid, gid)
            os.setresuid(uid, uid, uid)
        # bwrap's own --die-with-parent comes too late for a warden killed just now, and a
        # change of user would have undone it before here.
        die_with_parent(signal.SIGKILL)
        if os.getppid() != warden:
            os._exit(125)
        if plan.net is None:
            landlock.close_abstract_sockets()
        # An empty environment: /proc/1/environ in the box is bwrap's own.
        os.execve(argv[0], argv, {})
    except BaseException as error:
        os.write(2, f"axonkernel: cannot start {argv[0]}: {error}\n".encode())
    os._exit(125)


def _reserve(count: int) -> list[int]:
    """Descriptors that fill the numbers below ``count``, which the command's own will take."""
    reserved: list[int] = []
    while (fd := os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)) < count:
        reserved.append(fd)
    return [*reserved, fd]


def _above(fds: tuple[int, ...], floor: int) -> list[int]:
    """Duplicates of ``fds`` that no dup2 onto 0..floor-1 can overwrite."""
    import fcntl

    return [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, floor) for fd in fds]
