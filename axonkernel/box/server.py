"""Start our small servers: fresh interpreters that hold none of their maker's memory.

Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from collections.abc import Iterable

from axonkernel.box.channel import Channel, pair

__all__ = ["Server", "start_server", "user"]

_PACKAGE_ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Where a server finds its end of the channel.
_CHANNEL = 3
#: A server whose channel is closed has nothing to do but to end.
_PATIENCE_MS = 2000


class Server:
    """A running server of this process; it ends when its channel is closed.

    Arguments:
        channel: to it.
        pid: the server, a child of this process.
    """

    def __init__(self, channel: Channel, pid: int) -> None:
        self.channel = channel
        self.pid = pid
        self._owner = os.getpid()
        self._user = user()

    @property
    def is_current(self) -> bool:
        """Whether it is the user that this process is: one that gave up being root since must
        not have programs started by root."""
        return self._user == user()

    def close(self) -> None:
        """Have it end, and leave no zombie. In a forked child it is only let go of."""
        self.channel.close()
        if self._owner == os.getpid():
            with contextlib.suppress(OSError):  # somebody else has waited for it
                _await_end(self.pid)
                os.waitpid(self.pid, 0)


def user() -> tuple[object, ...]:
    """Who this process is, for what it starts."""
    return os.getresuid(), os.getresgid(), os.getgroups()


def _await_end(pid: int) -> None:
    ended = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(ended, select.POLLIN)
        if not poll.poll(_PATIENCE_MS):
            os.kill(pid, signal.SIGKILL)
    finally:
        os.close(ended)


def start_server(module: str, libraries: Iterable[str] = ()) -> Server:
    """Start ``main`` of ``axonkernel.box.MODULE``.

    Arguments:
        libraries: folders of what it imports beside the standard library and this package.

    Raises OSError.
    """
    ours, theirs = pair()
    # -I -S: nothing of the user's site or environment is imported in the server.
    code = (
        "import sys; sys.path += sys.argv[2:]; "
        f"from axonkernel.box.{module} import main; main(int(sys.argv[1]))"
    )
    argv = [sys.executable, "-I", "-S", "-c", code, str(_CHANNEL), _PACKAGE_ROOT, *libraries]
    try:
        # posix_spawn does not copy this process's memory map.
        pid = os.posix_spawn(
            sys.executable,
            argv,
            {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"},
            file_actions=[(os.POSIX_SPAWN_DUP2, theirs.fileno(), _CHANNEL)],
            setsid=True,
        )
    except BaseException:
        ours.close()
        raise
    finally:
        theirs.close()
    return Server(ours, pid)
