"""BoxPlan -> the arguments of bwrap.

Pure: sources and texts become descriptors through a callable the caller gives, so the same
function is tested without opening anything. What a descriptor stands for is fixed when it is
opened; a name that is reused later changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from axonkernel.box.model import BoxPlan, Command, Mount

__all__ = ["arguments"]

#: ("open", path) or ("text", content) -> the number of an inheritable descriptor.
Descriptor = Callable[[str, str], int]


def arguments(
    plan: BoxPlan,
    command: Command,
    descriptor: Descriptor,
    *,
    status_fd: int,
    block_fd: int,
    filter_fd: int,
) -> list[str]:
    """The options of bwrap for ``plan``, without the program name and the command.

    Arguments:
        descriptor: opens a source, or holds a text, and returns the descriptor.
        status_fd: bwrap writes JSON there: the child's pid, later its exit code.
        block_fd: bwrap waits there for a byte; -1 for a box that is not held.
        filter_fd: the seccomp filter; -1 for none.
    """
    options = [*_namespaces(plan), "--json-status-fd", str(status_fd)]
    for mount in plan.mounts:
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


def _namespaces(plan: BoxPlan) -> Iterator[str]:
    # --disable-userns wants the literal --unshare-user beside it.
    yield from ("--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts")
    yield from ("--unshare-cgroup-try", "--die-with-parent", "--new-session")
    yield from ("--cap-drop", "ALL", "--clearenv", "--hostname", plan.hostname)
    if plan.net is not None:
        yield "--unshare-net"
    if plan.deny_new_userns:
        yield "--disable-userns"


def _mount(mount: Mount, descriptor: Descriptor) -> list[str]:
    match mount.kind:
        case "bind":
            return ["--bind-fd", str(descriptor("open", mount.source)), mount.dest]
        case "ro-bind":
            return ["--ro-bind-fd", str(descriptor("open", mount.source)), mount.dest]
        case "tmpfs":
            size = ["--size", str(mount.size_bytes)] if mount.size_bytes else []
            return ["--perms", _octal(mount), *size, "--tmpfs", mount.dest]
        case "proc" | "dev":
            return [f"--{mount.kind}", mount.dest]
        case "dir":
            return ["--perms", _octal(mount), "--dir", mount.dest]
        case "symlink":
            return ["--symlink", mount.source, mount.dest]
        case "copy":
            source = str(descriptor("read", mount.source))
            return ["--perms", _octal(mount), "--file", source, mount.dest]
        case "data":
            text = str(descriptor("text", mount.data))
            return ["--perms", _octal(mount), "--file", text, mount.dest]
        case "data-over":
            text = str(descriptor("text", mount.data))
            return ["--perms", _octal(mount), "--ro-bind-data", text, mount.dest]
        case "mask-file":
            empty = str(descriptor("text", ""))
            return ["--perms", "0000", "--ro-bind-data", empty, mount.dest]
        case "mask-dir":
            return ["--perms", "0000", "--tmpfs", mount.dest, "--remount-ro", mount.dest]
        case "remount-ro":
            return ["--remount-ro", mount.dest]


def _octal(mount: Mount) -> str:
    return f"{mount.mode:04o}"
