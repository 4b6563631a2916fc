"""The terminal prompt, on /dev/tty: standard input and output stay the program's own."""

from __future__ import annotations

import os
import select
import termios
import threading

import anyio.to_thread

from axonkernel.escalation.question import Answer, Question
from axonkernel.forks import forget_in_children

__all__ = ["Terminal"]

#: Only these lines count, byte for byte; "" is the default answer, no.
_ANSWERS = {
    "y": Answer.yes("tty"),
    "yes": Answer.yes("tty"),
    "yes run": Answer.yes("tty", "run"),
    "": Answer.no("tty"),
    "n": Answer.no("tty"),
    "no": Answer.no("tty"),
    "no run": Answer.no("tty", "run"),
}
_ASKS = 1 + 3  # the prompt, and three times again after something that is no answer
_LONGEST_LINE_BYTES = 256
_LOOK_S = 0.05


#: One question at a time on each terminal, whoever asks.
_LOCKS: dict[str, threading.Lock] = {}


class Terminal:
    """Asks on the terminal the process was started from, one question at a time.

    Arguments:
        path: the terminal device.
        timeout_s: seconds the question has, for its text; the broker keeps the time.
    """

    name = "tty"

    def __init__(self, path: str = "/dev/tty", *, timeout_s: float | None = None) -> None:
        self._path = path
        self._timeout_s = timeout_s
        self._lock = _LOCKS.setdefault(path, threading.Lock())
        forget_in_children(self)

    def forget(self) -> None:
        """In a child no thread is in the middle of a question."""
        self._lock = _LOCKS[self._path] = threading.Lock()

    def available(self) -> bool:
        """Whether there is a terminal and this process may read it now."""
        try:
            file = os.open(self._path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            # Reading from the background would stop the process with SIGTTIN.
            return os.tcgetpgrp(file) == os.getpgrp()
        except OSError:
            # Not our controlling terminal, but a terminal: nobody stops us reading it.
            return os.isatty(file)
        finally:
            os.close(file)

    async def decide(self, question: Question) -> Answer | None:
        """Show the question and read the answer; None when the terminal went away."""
        stop = threading.Event()
        try:
            return await anyio.to_thread.run_sync(
                self._converse, question, stop, abandon_on_cancel=True
            )
        finally:
            stop.set()

    def _converse(self, question: Question, stop: threading.Event) -> Answer | None:
        while not self._lock.acquire(timeout=_LOOK_S):
            if stop.is_set():
                return None
        try:
            file = os.open(self._path, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
            try:
                return self._ask(file, question, stop)
            finally:
                os.close(file)
        except (OSError, termios.error):
            return None
        finally:
            self._lock.release()

    def _ask(self, file: int, question: Question, stop: threading.Event) -> Answer | None:
        from axonkernel.escalation.prompt import prompt_text  # it knows programs and lines

        text = prompt_text(question, timeout_s=self._timeout_s)
        for _ in range(_ASKS):
            # What was typed before the question was on the screen is not an answer to it.
            termios.tcflush(file, termios.TCIFLUSH)
            _write(file, text)
            line = _read_line(file, stop)
            if line is None:
                _write(file, "\nno longer waiting for an answer\n")
                return None
            answer = _ANSWERS.get(line)
            if answer is not None:
                return answer
            text = 'not an answer; type "yes" or "no" and nothing else  [no]: '
        _write(file, "taken as no\n")
        return Answer.no(self.name)


def _write(file: int, text: str) -> None:
    data = text.encode("utf-8", "backslashreplace")
    while data:
        data = data[os.write(file, data) :]


def _read_line(file: int, stop: threading.Event) -> str | None:
    """One line without its end; None when stopped. End of file is the default answer."""
    line = bytearray()
    while not stop.is_set():
        if not select.select([file], [], [], _LOOK_S)[0]:
            continue
        data = os.read(file, _LONGEST_LINE_BYTES)
        if not data:
            return ""
        line += data
        if b"\n" in data:
            whole = bytes(line).removesuffix(b"\n")
            # A line of several, or one too long, matches nothing and is asked again.
            return whole[:_LONGEST_LINE_BYTES].decode("utf-8", "backslashreplace")
        del line[_LONGEST_LINE_BYTES + 1 :]
    return None
