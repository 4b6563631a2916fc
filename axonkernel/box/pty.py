"""A terminal of the box's own in place of the caller's, and what is copied between the two.

With keyboard and screen both the caller's terminal, that is made raw: what is typed means what
the box's terminal says it means, ^C and ^Z included. Otherwise another program shares the
terminal (a pager reads its keys), so it is left as it is: lines go in when nobody reads single
keys, what the box writes comes out. The caller's settings are put back at every end.
Standard library only.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import termios
import threading
import tty

from axonkernel.box.copying import write
from axonkernel.typed import Any

__all__ = ["Terminal"]

#: How often it is looked whether we are in the foreground again, and may read (seconds).
_LOOK_S = 0.1
_IFLAG, _OFLAG, _CFLAG, _LFLAG, _CC = 0, 1, 2, 3, 6
_END_OF_FILE = b"\x04"


class Terminal:
    """The box's terminal; see :class:`axonkernel.box.streams.Streams`.

    Arguments:
        fds: the caller's standard streams.
        kinds: which of them are terminals.
        owner: uid that may open it by its name; None for this process's.
        controlling: see Streams.

    Attributes:
        slave: the box's end.
        caller: the caller's terminal.
    """

    def __init__(
        self,
        fds: tuple[int, ...],
        kinds: tuple[str, ...],
        owner: int | None = None,
        controlling: bool = True,
    ) -> None:
        found = [fd for fd, kind in zip(fds, kinds, strict=True) if kind == "terminal"]
        self._screen = found[-1] if kinds[0] != "terminal" or len(found) > 1 else -1
        self._keys = fds[0] if kinds[0] == "terminal" else -1
        if kinds[1] == "terminal":
            self._screen = fds[1]
        self._whole = controlling and kinds[0] == kinds[1] == "terminal"
        self.caller = found[0]
        self._before: list[Any] = termios.tcgetattr(self.caller)
        self._master, self.slave = os.openpty()
        if owner is not None:
            os.fchown(self.slave, owner, -1)
        termios.tcsetattr(self.slave, termios.TCSANOW, self._settings())
        self.resize()
        self._changing = threading.Lock()
        self._raw = self._held = self._over = False
        self._stop_read, self._stop = os.pipe()
        self._threads = [threading.Thread(target=self._show, daemon=True)]
        if self._keys >= 0:
            self._threads.append(threading.Thread(target=self._type, daemon=True))

    def _settings(self) -> list[Any]:
        """Of the box's terminal: the caller's, less what the caller's does already."""
        settings = [*self._before[:_CC], list(self._before[_CC])]
        if not self._whole:
            settings[_IFLAG] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR | termios.IXON)
            settings[_OFLAG] &= ~termios.OPOST
            settings[_LFLAG] &= ~termios.ECHO
            settings[_LFLAG] |= termios.ICANON
            settings[_CC][termios.VEOF] = _END_OF_FILE
        return settings

    def resize(self) -> None:
        """Have the size of the caller's terminal, as it is now."""
        with contextlib.suppress(OSError, termios.error):
            termios.tcsetwinsize(self._master, termios.tcgetwinsize(self.caller))

    def start(self) -> None:
        """The box has its end: copy."""
        self.resize()
        self._may_read()
        for thread in self._threads:
            thread.start()

    def hold(self) -> None:
        """Give the caller's terminal back for a while: somebody else asks something there."""
        with self._changing:
            self._held = True
            self._restore()

    def go_on(self) -> None:
        """Take it again."""
        with self._changing:
            self._held = False

    def finish(self) -> None:
        """The box has ended: show what it wrote, and give the terminal back."""
        self._threads[0].join()
        with self._changing:
            self._over = True
            self._restore()
        os.close(self._stop)
        for thread in self._threads[1:]:
            thread.join()
        for fd in (self._master, self._stop_read):
            os.close(fd)

    def _show(self) -> None:
        """From the box to the screen, until no process of the box holds its end."""
        with contextlib.suppress(OSError):  # EIO is the end
            while data := os.read(self._master, 65536):
                if self._screen >= 0:
                    with contextlib.suppress(OSError):  # the screen is gone: read on
                        write(self._screen, data)

    def _type(self) -> None:
        """From the keys to the box, while they are ours to read."""
        with contextlib.suppress(OSError):
            while True:
                sources = [self._stop_read, self._keys] if self._may_read() else [self._stop_read]
                ready = select.select(sources, [], [], _LOOK_S)[0]
                if self._stop_read in ready or (ready and not self._pass_keys()):
                    return

    def _pass_keys(self) -> bool:
        """Pass on what was typed; False when the caller's terminal is gone."""
        with self._changing:
            if not self._mine():
                return True
            data = os.read(self._keys, 4096)
        if not data and self._whole:
            return False
        if not self._whole and not data.endswith(b"\n"):
            data += _END_OF_FILE
        write(self._master, data)
        return True

    def _may_read(self) -> bool:
        with self._changing:
            mine = self._mine()
            if mine and self._whole and not self._raw:
                tty.setraw(self.caller, termios.TCSANOW)
                self._raw = True
            return mine

    def _mine(self) -> bool:
        """Whether what is typed is for the box. In the background reading would stop us."""
        if self._held or self._over or self._keys < 0 or not _in_foreground(self._keys):
            return False
        return self._whole or bool(termios.tcgetattr(self._keys)[_LFLAG] & termios.ICANON)

    def _restore(self) -> None:
        if not self._raw:
            return
        self._raw = False
        # From the background it would stop us.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTTOU,))
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self.caller, termios.TCSANOW, self._before)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _in_foreground(fd: int) -> bool:
    try:
        return os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return True  # not our controlling terminal: nobody stops us
