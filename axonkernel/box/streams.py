"""What stands between the caller's standard streams and a box.

A descriptor of a file, a folder or a terminal is more than a stream: through /proc/self/fd it
can be opened again, to read what should be written or to write what should be read; a terminal
can be typed into. So a box gets pipes in place of files, whose bytes are copied here, and a
terminal of its own in place of the caller's (box/pty.py). Pipes, sockets and the likes of
/dev/null are handed on as they are. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import struct
import termios

from axonkernel.box.copying import copy, copy_until
from axonkernel.typed import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    import threading

    from axonkernel.box.pty import Terminal

__all__ = ["Kind", "Streams", "kind_of"]

Kind = Literal["itself", "copied", "terminal", "none"]

#: null, zero, full, random, urandom: the same for everybody, and every box has them.
_PLAIN_DEVICES = {os.makedev(1, minor) for minor in (3, 5, 7, 8, 9)}


def kind_of(fd: int) -> Kind:
    """What a box gets for a descriptor of the caller's; ``none`` is /dev/null."""
    try:
        status = os.fstat(fd)
        opened = fcntl.fcntl(fd, fcntl.F_GETFL)
    except OSError:
        return "none"
    mode = status.st_mode
    if opened & os.O_PATH or stat.S_ISDIR(mode) or stat.S_ISLNK(mode):
        return "none"
    if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
        return "itself"
    if stat.S_ISCHR(mode) and status.st_rdev in _PLAIN_DEVICES:
        return "itself"
    return "terminal" if os.isatty(fd) else "copied"


class _Output(NamedTuple):
    """One pipe out of the box, and where its bytes go."""

    pipe: int
    sink: int
    name: str


class Streams:
    """The three descriptors of one box, and what is behind them.

    Make it, give ``given`` to the command, then :meth:`start`; :meth:`finish` in the end.

    Arguments:
        fds: the caller's standard input, output and error.
        run_as: uid of the agent, which may open its terminal again; None for this one.
        controlling: whether the terminal will be the controlling one of the box's session;
            where it is not, keys such as ^C are for this process to pass on.

    Attributes:
        given: what the box gets for them.
        terminal: the box's terminal, or None; then ``caller`` is the caller's.
        fault: what could not be written, after :meth:`finish`.
    """

    def __init__(
        self,
        fds: tuple[int, int, int] = (0, 1, 2),
        run_as: int | None = None,
        *,
        controlling: bool = True,
    ) -> None:
        self.terminal: Terminal | None = None
        self.fault = ""
        self.caller = -1
        self._theirs: list[int] = []
        self._outputs: list[_Output] = []
        self._threads: list[threading.Thread] = []
        self._feed: _Feed | None = None
        kinds = tuple(map(kind_of, fds))
        if "terminal" in kinds:
            from axonkernel.box.pty import Terminal

            self.terminal = Terminal(fds, kinds, run_as, controlling)
            self._theirs.append(self.terminal.slave)
            self.caller = self.terminal.caller
        self.given = (self._input(fds[0], kinds[0]), *self._output(fds, kinds))

    def _input(self, fd: int, kind: Kind) -> int:
        if kind == "copied":
            self._feed = _Feed(fd)
            self._theirs.append(self._feed.theirs)
            return self._feed.theirs
        return self._other(fd, kind)

    def _output(self, fds: tuple[int, int, int], kinds: tuple[Kind, ...]) -> tuple[int, int]:
        out = (
            self._pipe(fds[1], "stdout") if kinds[1] == "copied" else self._other(fds[1], kinds[1])
        )
        if kinds[1:] == ("copied", "copied") and os.path.sameopenfile(fds[1], fds[2]):
            return out, out  # what is written to both stays in order
        err = (
            self._pipe(fds[2], "stderr") if kinds[2] == "copied" else self._other(fds[2], kinds[2])
        )
        return out, err

    def _pipe(self, sink: int, name: str) -> int:
        read, write = os.pipe()
        self._outputs.append(_Output(read, sink, name))
        self._theirs.append(write)
        return write

    def _other(self, fd: int, kind: Kind) -> int:
        if kind == "terminal":
            assert self.terminal is not None
            return self.terminal.slave
        return fd if kind == "itself" else -1

    def start(self) -> None:
        """The box has its ends: let go of them, and copy."""
        for fd in self._theirs:
            os.close(fd)
        if self._feed is not None:
            self._feed.start()
        if self.terminal is not None:
            self.terminal.start()
        if self._outputs:
            import threading  # for those that copy
        for output in self._outputs:
            thread = threading.Thread(target=self._copy, args=(output,), daemon=True)
            thread.start()
            self._threads.append(thread)

    def _copy(self, output: _Output) -> None:
        try:
            copy(output.pipe, output.sink)
        except OSError as error:
            self.fault = f"{output.name}: {error.strerror}"
        finally:
            os.close(output.pipe)  # whoever writes on gets SIGPIPE

    def finish(self) -> None:
        """The box has ended: write what it wrote, give back what it did not read."""
        for thread in self._threads:
            thread.join()
        if self._feed is not None:
            self._feed.finish()
        if self.terminal is not None:
            self.terminal.finish()


class _Feed:
    """A file as the standard input of a box."""

    def __init__(self, source: int) -> None:
        self._source = source
        self.theirs, self._sink = os.pipe()
        # Kept to see how much was not read.
        self._seen = os.dup(self.theirs)
        self._stop_read, self._stop = os.pipe()
        import threading

        self._thread = threading.Thread(target=self._copy, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _copy(self) -> None:
        with contextlib.suppress(OSError):  # it cannot be read: that is its end
            copy_until(self._source, self._sink, self._stop_read)
        os.close(self._sink)

    def finish(self) -> None:
        os.close(self._stop)
        self._thread.join()
        unread = struct.unpack("i", fcntl.ioctl(self._seen, termios.FIONREAD, bytes(4)))[0]
        if unread:
            # The next program that reads the file goes on where this one stopped.
            with contextlib.suppress(OSError):
                os.lseek(self._source, -unread, os.SEEK_CUR)
        for fd in (self._seen, self._stop_read):
            os.close(fd)
