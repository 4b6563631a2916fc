"""What the attempts are made of. Standard library only."""

from __future__ import annotations

import errno
import os
import socket
from collections.abc import Callable

from axonkernel.escapes.attempt import Refused

__all__ = [
    "any_of",
    "append",
    "glance",
    "in_child",
    "opened",
    "processes",
    "read",
    "remount_flags",
    "say",
    "secrets_in",
    "write",
]

#: More than any secret is long.
_ENOUGH_BYTES = 1 << 16


def read(path: str | int) -> str:
    """The beginning of a file."""
    with open(path, "rb", closefd=not isinstance(path, int)) as file:
        return file.read(_ENOUGH_BYTES).decode("latin-1")


def write(path: str, text: str = "written by an attempt to escape\n") -> str:
    """Make or replace a file."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.write(fd, text.encode())
    os.close(fd)
    return path


def append(path: str, text: str = "added by an attempt to escape\n") -> str:
    """Add to a file that is there."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.write(fd, text.encode())
    os.close(fd)
    return path


def opened(path: str, flags: int = os.O_RDONLY) -> str:
    """That a file can be opened; nothing is done with it."""
    os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY))
    return f"opened {path}"


def glance(paths: list[str]) -> str:
    """The contents of those files that can be read, together."""
    found, last = [], Refused("there is nothing")
    for path in paths:
        try:
            found.append(read(path))
        except OSError as error:
            last = Refused(errno.errorcode.get(error.errno or 0, "error"))
    if not found:
        raise last
    return "\n".join(found)


def remount_flags(path: str) -> int:
    """The flags of a mount that no remount in a user namespace may drop."""
    found = os.statvfs(path).f_flag
    keep = {2: 2, 4: 4, 8: 8, 1024: 1024, 2048: 2048, 4096: 1 << 21}  # nosuid ... relatime
    return sum(flag for seen, flag in keep.items() if found & seen)


def secrets_in(text: str) -> str:
    """What of a text could be a secret of the stage: all of it may be too much to send."""
    words = dict.fromkeys(word[:200] for word in text.split("\0") if "token-" in word)
    return "\n".join(words)


def any_of(*ways: Callable[[], str]) -> str:
    """What the ways that worked brought. Raises the last way's error when none did."""
    brought, last = [], OSError(errno.ENOENT, "no way")
    for way in ways:
        try:
            brought.append(way())
        except OSError as error:
            last = error
    if not brought:
        raise last
    return "\n".join(brought)


def in_child(do: Callable[[], object]) -> str:
    """Do what would change this process in a child. Raises OSError with the child's errno."""
    pid = os.fork()
    if pid == 0:
        try:
            do()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 255)
        except BaseException:
            os._exit(255)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code < 0:
        raise Refused(f"signal {-code}")
    if code:
        raise OSError(code, os.strerror(code))
    return "done"


def say(
    family: int, kind: int, address: tuple[str, int] | str, text: str, protocol: int = 0
) -> str:
    """Send ``text`` to a listener and wait for its answer."""
    with socket.socket(family, kind, protocol) as caller:
        caller.settimeout(2)
        caller.connect(address)
        caller.send(text.encode())
        caller.recv(1)
    return f"{address!r} answered"


def processes() -> list[int]:
    """Every process that is listed."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]
