"""One run of one program, from start to result."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from attrs import evolve

from axonkernel.errors import AxonError, LimitExceeded, ToolError
from axonkernel.process.pump import Capture, Feed, Stop, drain, over, pump
from axonkernel.process.result import ProcessResult
from axonkernel.process.start import Ending, Place, Running, Start, start_program

__all__ = ["OUTPUT_BYTES", "Call"]

#: Bytes one output of a call returns when ``limits.output`` is not declared.
OUTPUT_BYTES = 10 * 1024 * 1024


class Call:
    """Runs a judged call once. Blocking; ``cancel`` may come from another thread.

    Arguments:
        start: what runs.
        place: where.
        data: its standard input; None for an empty one.
        timeout_s: seconds it may take, beside what the policy's limits say.
    """

    def __init__(
        self, start: Start, place: Place, data: bytes | None = None, timeout_s: float | None = None
    ) -> None:
        self._start = start
        self._place = place
        self._data = data
        self._timeout_s = _sooner(timeout_s, place)
        self._lock = threading.Lock()
        self._running: Running | None = None
        self._cancelled = False
        self._stop: Stop = "end"
        limits = place.policy.limits
        declared = limits.output_bytes if limits is not None else None
        self._cap_bytes = OUTPUT_BYTES if declared is None else declared
        # What nobody declared is cut short; what somebody did is an error.
        self._most_bytes = declared
        self._captures: list[Capture] = []
        self._feed: Feed | None = None

    @property
    def pid(self) -> int:
        """The program's pid, 0 when nothing was started."""
        return self._running.pid if self._running is not None else 0

    def run(self) -> ProcessResult:
        """Start, wait, and collect.

        Raises:
            LimitExceeded: a limit or the timeout ended it.
            IsolationUnavailable, BoxError: nothing ran.
        """
        refused = self.start()
        return refused if refused is not None else self.finish()

    def start(self) -> ProcessResult | None:
        """Start the program; a result at once when there is no such program."""
        if self._start.program.file is None:
            return _not_run(127, f"{self._start.argv[0]}: no such program")
        given, kept = self._pipes()
        try:
            stdin, stdout, stderr = given
            start = evolve(self._start, withdrawn=lambda: self._cancelled)
            running = start_program(start, self._place, stdin=stdin, stdout=stdout, stderr=stderr)
        except OSError as error:
            _close_all(kept)
            if error.filename == self._start.cwd:
                raise ToolError("process", f"the working directory: {error.strerror}") from None
            code = 127 if isinstance(error, FileNotFoundError) else 126
            return _not_run(code, f"{self._start.argv[0]}: {error.strerror}")
        except BaseException:
            _close_all(kept)
            raise
        finally:
            _close_all(given)
        self._hold(running, kept)
        return None

    def finish(self) -> ProcessResult:
        """Wait for the started program. Raises as :meth:`run` does."""
        running = self._running
        assert running is not None
        try:
            with _news(running) as news:
                self._stop = pump(
                    self._captures,
                    self._feed,
                    news,
                    running.ended,
                    self._timeout_s,
                    self._most_bytes,
                )
            if self._stop != "end":
                running.kill()
            running.wait()
        except BaseException:  # the caller is interrupted: nothing may run on unwatched
            running.kill()
            drain(self._captures, self._feed)
            with suppress(AxonError):
                running.end()
            raise
        # What was left behind is ended first, so that the pipes come to their end.
        ending = running.end()
        drain(self._captures, self._feed)
        return self._result(running, ending)

    def cancel(self) -> None:
        """End the program, or keep it from starting a life of its own."""
        with self._lock:
            self._cancelled = True
            running = self._running
        if running is not None:
            running.kill()

    def _hold(self, running: Running, kept: list[int]) -> None:
        *outputs, feed = kept if self._data is not None else [*kept, -1]
        self._captures = [Capture(file, self._cap_bytes) for file in outputs]
        self._feed = Feed(feed, self._data) if self._data is not None else None
        with self._lock:
            self._running = running
            cancelled = self._cancelled
        if cancelled:
            running.kill()

    def _pipes(self) -> tuple[list[int], list[int]]:
        """(stdin, stdout, stderr) for the program, and our ends: stdout, stderr[, stdin]."""
        out_read, out_write = os.pipe()
        error_read, error_write = os.pipe()
        if self._data is None:
            nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
            return [nothing, out_write, error_write], [out_read, error_read]
        in_read, in_write = os.pipe()
        return [in_read, out_write, error_write], [out_read, error_read, in_write]

    def _result(self, running: Running, ending: Ending) -> ProcessResult:
        self._refuse_over_limit(ending)
        stdout, stderr = self._captures
        return ProcessResult(
            exit_code=ending.exit_code,
            stdout=bytes(stdout.data),
            stderr=bytes(stderr.data) or ending.message.encode(),
            stdout_truncated=stdout.truncated,
            stderr_truncated=stderr.truncated,
            net_denied=ending.net_denied,
            kept=ending.kept,
            held_by=running.held_by,
            walls=("mediator", *running.walls),
            env_dropped=running.env_dropped,
            notes=tuple(self._notes(ending)),
            used=ending.used,
        )

    def _refuse_over_limit(self, ending: Ending) -> None:
        action = f"run {self._start.argv[0]}"
        limits = self._place.policy.limits
        if self._stop == "time":
            raise LimitExceeded("wall", action, self._timeout_s)
        if over(self._captures, self._most_bytes):
            raise LimitExceeded("output", action, self._most_bytes)
        if ending.limit == "wall":
            raise LimitExceeded("wall", action, limits.wall_s if limits else None, ending.peak)
        if ending.limit == "memory":
            limit = limits.memory_bytes if limits else None
            raise LimitExceeded("memory", action, limit, ending.peak)

    def _notes(self, ending: Ending) -> list[str]:
        names = ("stdout", "stderr")
        notes = [
            f"{name} truncated at {self._cap_bytes} bytes"
            for name, capture in zip(names, self._captures, strict=True)
            if capture.truncated
        ]
        if ending.background:
            notes.append("background process ended by kernel")
        if ending.refused_pids:
            notes.append("limits.pids was reached: processes were not made")
        return notes


def _sooner(timeout_s: float | None, place: Place) -> float | None:
    """The box keeps ``limits.wall`` itself; without one it is kept here."""
    limits = place.policy.limits
    wall_s = limits.wall_s if limits is not None and place.launcher is None else None
    return min((each for each in (timeout_s, wall_s) if each is not None), default=None)


@contextmanager
def _news(running: Running) -> Iterator[int]:
    """A descriptor that is readable when ``running.ended`` may have become true."""
    if running.fileno() >= 0:
        yield running.fileno()
        return
    ended_read, ended_write = os.pipe()
    threading.Thread(target=_announce, args=(running, ended_write), daemon=True).start()
    try:
        yield ended_read
    finally:
        os.close(ended_read)


def _announce(running: Running, ended: int) -> None:
    try:
        running.wait()
    finally:
        os.close(ended)


def _not_run(code: int, message: str) -> ProcessResult:
    return ProcessResult(code, stderr=f"{message}\n".encode("utf-8", "surrogateescape"))


def _close_all(files: list[int]) -> None:
    for file in files:
        with suppress(OSError):
            os.close(file)
