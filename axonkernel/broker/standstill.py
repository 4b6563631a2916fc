"""While a person is asked, a box's wall clock stands still and keys are answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from axonkernel.box.launch import BoxProcess
from axonkernel.box.pty import Terminal

__all__ = ["Standstill"]


class Standstill:
    """Of one box, however many questions wait at one time.

    Arguments:
        terminal: the box's, which types nothing meanwhile.
    """

    def __init__(self, box: BoxProcess, terminal: Terminal | None = None) -> None:
        self._box = box
        self._terminal = terminal
        self._lock = threading.Lock()
        self._asking = 0

    @contextmanager
    def while_asking(self) -> Iterator[None]:
        """For as long as one question waits."""
        with self._lock:
            self._asking += 1
            if self._asking == 1:
                self._box.pause()
                if self._terminal is not None:
                    self._terminal.hold()
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1
                if self._asking == 0:
                    self._box.resume()
                    if self._terminal is not None:
                        self._terminal.go_on()
