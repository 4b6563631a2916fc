"""A plan's box by bwrap alone: what its mounts cost without a tree made beforehand."""

from __future__ import annotations

import os
from collections.abc import Callable

from axonkernel.box import bwrap
from axonkernel.box.model import BoxPlan, Command, Mount

__all__ = ["words"]

#: ("open", path), ("read", path) or ("text", content) -> an inheritable descriptor.
Descriptor = Callable[[str, str], int]


def words(plan: BoxPlan, argv: tuple[str, ...], descriptor: Descriptor) -> list[str]:
    """The arguments of bwrap, the command with them: every mount is bwrap's own."""
    fds = {"status_fd": -1, "block_fd": -1, "filter_fd": -1}
    ids = plan.run_as or (os.getuid(), os.getgid())
    options = bwrap.arguments(plan, Command(argv), "", (), lambda path: -1, ids=ids, **fds)
    for unwanted, count in (("--json-status-fd", 2), ("--dev-bind", 3)):
        at = options.index(unwanted)
        del options[at : at + count]
    mounts = [word for mount in plan.mounts for word in _mount(mount, descriptor)]
    at = options.index("--setenv") if "--setenv" in options else options.index("--chdir")
    return [*options[:at], *mounts, *options[at:], *argv]


def _mount(mount: Mount, descriptor: Descriptor) -> list[str]:
    perms = ["--perms", f"{mount.mode:04o}"]
    match mount.kind:
        case "bind" | "ro-bind":
            return [f"--{mount.kind}-fd", str(descriptor("open", mount.source)), mount.dest]
        case "tmpfs":
            size = ["--size", str(mount.size_bytes)] if mount.size_bytes else []
            return [*perms, *size, "--tmpfs", mount.dest]
        case "proc" | "dev" | "remount-ro":
            return [f"--{mount.kind}", mount.dest]
        case "symlink":
            return ["--symlink", mount.source, mount.dest]
        case "copy":
            return [*perms, "--file", str(descriptor("read", mount.source)), mount.dest]
        case "data":
            return [*perms, "--file", str(descriptor("text", mount.data)), mount.dest]
        case "data-over":
            return [*perms, "--ro-bind-data", str(descriptor("text", mount.data)), mount.dest]
        case "mask-file":
            text = str(descriptor("text", ""))
            return ["--perms", "0000", "--ro-bind-data", text, mount.dest]
        case "mask-dir":
            return ["--perms", "0000", "--tmpfs", mount.dest, "--remount-ro", mount.dest]
        case "device":
            return ["--dev-bind", mount.source, mount.dest]
        case "dir":
            return [*perms, "--dir", mount.dest]
        case "devpts":
            return []  # with dev
