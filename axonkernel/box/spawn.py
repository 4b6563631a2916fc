"""Make a box's file tree and start bwrap on it, with its descriptors; standard library only.

Everything bwrap inherits is named here: bwrap hands whatever it inherits to the command, so
only 0, 1, 2, the channel and the descriptors its own options name (it closes those) may be
open.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
from binascii import a2b_base64
from collections.abc import Callable

from axonkernel.box import bwrap, tree
from axonkernel.box.linux import close_on_exec_from, default_signals, die_with_parent
from axonkernel.box.model import BoxPlan, Command, Mount
from axonkernel.box.steps import Step, steps
from axonkernel.errors import BoxError
from axonkernel.typed import NamedTuple, NoReturn

__all__ = ["Spawned", "spawn"]

_MOST_SAID = 500
#: What a terminal sends to the processes in its foreground.
_TYPED = (
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGHUP,
    signal.SIGWINCH,
)


class Spawned(NamedTuple):
    """A bwrap that makes its box and then waits for a byte.

    Arguments:
        pid: bwrap's outer process.
        status: where bwrap writes its JSON, or this its ``fault``, when the tree cannot be
            made.
        hold: one byte written here lets it go on.
    """

    pid: int
    status: int
    hold: int


def spawn(
    program: str,
    plan: BoxPlan,
    command: Command,
    given: tuple[int, ...],
    seize: Callable[[int], None],
    lent: tuple[int, ...] = (),
) -> Spawned:
    """Start bwrap for ``plan``.

    Arguments:
        program: absolute path of bwrap.
        given: descriptors the command gets as 0, 1, 2 and perhaps 3; closed here.
        seize: called with the pid of what will be bwrap, before it does anything.
        lent: descriptors of the plan's ``lent`` mounts, in order; closed here.

    Raises BoxError when there is no place for the tree.
    """
    reserved = _reserve(len(given))
    status_read, status_write = os.pipe()
    hold_read, hold_write = os.pipe()
    # bwrap gets a pipe it can also write: end-of-file would release it.
    block = os.open(f"/proc/self/fd/{hold_read}", os.O_RDWR | os.O_CLOEXEC)
    kept = [status_write, block]
    parts = steps(plan.mounts, _terminal(given[1]))
    try:
        at = tree.place(parts.tree)
        options = _options(plan, command, at, parts.bwrap, kept)
        kept.append(_holding(("\0".join(options) + "\0").encode("utf-8", "surrogateescape")))
        argv = [program, "--args", str(kept[-1]), *command.argv]

        def become() -> NoReturn:
            _make_tree(parts.tree, at, plan, status_write, lent)
            _become(argv, plan, kept, given, terminal=command.terminal)

        pid = _forked(become, seize)
    finally:
        for fd in (*kept, *reserved, hold_read, *given, *lent):
            os.close(fd)
    return Spawned(pid, status_read, hold_write)


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
    plan: BoxPlan, command: Command, at: str, mounts: tuple[Mount, ...], kept: list[int]
) -> list[str]:
    """bwrap's, whose descriptors are added to ``kept``: first the status and the block."""
    status, block = kept
    filter_fd = -1
    if plan.filter:
        filter_fd = _holding(a2b_base64(plan.filter))
        kept.append(filter_fd)

    def descriptor(path: str) -> int:
        kept.append(tree.open_source(path))
        return kept[-1]

    return bwrap.arguments(
        plan,
        command,
        at,
        mounts,
        descriptor,
        status_fd=status,
        block_fd=block,
        filter_fd=filter_fd,
        ids=plan.run_as or (os.getuid(), os.getgid()),
    )


def _terminal(fd: int) -> str:
    """The device behind a descriptor that is a terminal of this mount namespace, or ""."""
    try:
        return os.ttyname(fd)
    except OSError:
        return ""


def _holding(content: bytes) -> int:
    fd = os.memfd_create("axonkernel")
    os.write(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _make_tree(
    parts: tuple[Step, ...], at: str, plan: BoxPlan, status: int, lent: tuple[int, ...]
) -> None:
    """In the child, as the supervisor's user: what the box's may not enter is mounted too."""
    try:
        tree.make(parts, at, plan.run_as, lent)
    except BaseException as error:
        fault = error.message if isinstance(error, BoxError) else f"{error}"
        # No brace before the end, by which the reader knows it.
        said = json.dumps({"fault": fault[:_MOST_SAID]}).encode().replace(b"}", b"\\u007d")
        os.write(status, said.removesuffix(b"\\u007d") + b"}")
        os._exit(125)


def _become(
    argv: list[str], plan: BoxPlan, kept: list[int], given: tuple[int, ...], *, terminal: bool
) -> NoReturn:
    warden = os.getppid()
    try:
        for target, fd in enumerate(_above(given, len(given))):
            os.dup2(fd, target, inheritable=True)
        close_on_exec_from(len(given))
        default_signals()
        if terminal:
            _take_terminal()
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
            from axonkernel.box import landlock

            landlock.close_abstract_sockets()
        # An empty environment: /proc/1/environ in the box is bwrap's own.
        os.execve(argv[0], argv, {})
    except BaseException as error:
        os.write(2, f"axonkernel: cannot start {argv[0]}: {error}\n".encode())
    os._exit(125)


def _take_terminal() -> None:
    """A session whose controlling terminal is the one among 0, 1 and 2.

    bwrap itself is in the foreground there, as its command will be, and what is typed must
    not end or stop it. So the signals are held back until the gate gives the command an empty
    mask.
    """
    import termios

    os.setsid()
    fcntl.ioctl(next(filter(os.isatty, (0, 1, 2))), termios.TIOCSCTTY, 0)
    signal.pthread_sigmask(signal.SIG_BLOCK, _TYPED)


def _reserve(count: int) -> list[int]:
    """Descriptors that fill the numbers below ``count``, which the command's own will take."""
    reserved: list[int] = []
    while (fd := os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)) < count:
        reserved.append(fd)
    return [*reserved, fd]


def _above(fds: tuple[int, ...], floor: int) -> list[int]:
    """Duplicates of ``fds`` that no dup2 onto 0..floor-1 can overwrite."""
    return [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, floor) for fd in fds]
