"""While a person is asked, a box's wall clock stands still and keys are answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from axonkernel.box.launch import BoxProcess
    from axonkernel.box.pty import Terminal

__all__ = ["Standstill"]


class Standstill:
    """Of one box: whoever asks for it does so under the same one, whatever the questions are."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asking = 0

    @contextmanager
    def while_asking(self, box: BoxProcess, terminal: Terminal | None = None) -> Iterator[None]:
        """For as long as one question waits.

        Arguments:
            terminal: the box's, which types nothing meanwhile.
        """
        with self._lock:
            self._asking += 1
            if self._asking == 1:
                box.pause()
                if terminal is not None:
                    terminal.hold()
        try:
            yield
        finally:
            with self._lock:
                self._asking -= 1
                if self._asking == 0:
                    box.resume()
                    if terminal is not None:
                        terminal.go_on()
