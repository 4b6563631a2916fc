"""BoxPlan -> the arguments of bwrap.

Pure: sources become descriptors through a callable the caller gives, so the same function is
tested without opening anything. The file tree is made before bwrap starts (box/tree.py); it
gets that as one mount, and makes the few that only it can make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from axonkernel.box.model import BoxPlan, Command, Mount
from axonkernel.errors import BoxError

__all__ = ["arguments"]

#: The path of a source -> the number of an inheritable descriptor.
Descriptor = Callable[[str], int]


def arguments(
    plan: BoxPlan,
    command: Command,
    tree: str,
    mounts: Iterable[Mount],
    descriptor: Descriptor,
    *,
    ids: tuple[int, int],
    status_fd: int,
    block_fd: int,
    filter_fd: int,
) -> list[str]:
    """The options of bwrap for ``plan``, without the program name and the command.

    Arguments:
        tree: where the file tree lies when bwrap starts.
        mounts: what is mounted over that: proc, and binds in it.
        descriptor: opens a source and returns the descriptor.
        ids: uid and gid of the command.
        status_fd: bwrap writes JSON there: the child's pid, later its exit code.
        block_fd: bwrap waits there for a byte; -1 for a box that is not held.
        filter_fd: the seccomp filter; -1 for none.
    """
    options = [*_namespaces(plan, command), "--uid", str(ids[0]), "--gid", str(ids[1])]
    options += ["--json-status-fd", str(status_fd)]
    # As it is: --bind would forbid the devices that are in it.
    options += ["--dev-bind", tree, "/"]
    for mount in mounts:
        options += _mount(mount, descriptor)
    env = plan.env if command.env is None else command.env
    for name, value in env:
        options += ["--setenv", name, value]
    options += ["--chdir", plan.cwd if command.cwd is None else command.cwd]
    if block_fd >= 0:
        options += ["--block-fd", str(block_fd)]
    if filter_fd >= 0:
        options += ["--seccomp", str(filter_fd)]
    return options


def _namespaces(plan: BoxPlan, command: Command) -> Iterator[str]:
    # --disable-userns wants the literal --unshare-user beside it.
    yield from ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts")
    yield from ("--unshare-cgroup-try", "--die-with-parent")
    if not command.terminal:  # else bwrap itself is started in a session with that terminal
        yield "--new-session"
    yield from ("--cap-drop", "ALL", "--clearenv", "--hostname", plan.hostname)
    if plan.net is not None:
        yield "--unshare-net"
    if plan.deny_new_userns:
        yield "--disable-userns"


def _mount(mount: Mount, descriptor: Descriptor) -> list[str]:
    match mount.kind:
        case "proc":
            return ["--proc", mount.dest]
        case "bind" | "ro-bind":
            return [f"--{mount.kind}-fd", str(descriptor(mount.source)), mount.dest]
        case _:
            raise BoxError("mounts", f"{mount.dest}: no {mount.kind} can be made there")
