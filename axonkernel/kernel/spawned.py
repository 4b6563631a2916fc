"""A program that runs beside its caller."""

from __future__ import annotations

import threading
from collections.abc import Callable

import anyio
import anyio.to_thread

from axonkernel.process import Call, ProcessResult

__all__ = ["Spawned"]


class Spawned:
    """A program that runs beside the caller, its output kept up to the ``output`` limit."""

    def __init__(self, call: Call, closing: list[Callable[[], None]]) -> None:
        self._call = call
        self._closing = closing
        self._result: ProcessResult | None = None
        self._error: Exception | None = None
        closing.append(self.kill)
        self._thread = threading.Thread(target=self._finish, daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """Its process id, as this process sees it."""
        return self._call.pid

    @property
    def running(self) -> bool:
        """Whether it has not ended yet."""
        return self._thread.is_alive()

    def kill(self) -> None:
        """End it and everything it started, and wait until that is done."""
        self._call.cancel()
        self._thread.join()

    async def wait(self) -> ProcessResult:
        """Wait for its end. Raises LimitExceeded when a limit ended it."""
        return await anyio.to_thread.run_sync(
            self.wait_sync, abandon_on_cancel=True, limiter=anyio.CapacityLimiter(1)
        )

    def wait_sync(self) -> ProcessResult:
        """:meth:`wait` for code without an event loop."""
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _finish(self) -> None:
        try:
            self._result = self._call.finish()
        except Exception as error:
            self._error = error
        finally:
            if self.kill in self._closing:
                self._closing.remove(self.kill)
