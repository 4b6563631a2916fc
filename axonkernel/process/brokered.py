"""A program that does not exist in this box: the supervisor judges the call once more, asks
whoever must be asked, and runs it in a box of its own."""

from __future__ import annotations

import json
import select
import threading
import time
from collections.abc import Mapping
from typing import Any

from axonkernel.box.model import Refusal
from axonkernel.broker.client import Calling, call
from axonkernel.broker.wire import Ended, Refused, WireError
from axonkernel.errors import BoxError, EscalationDenied, PolicyDenied
from axonkernel.process.result import Usage
from axonkernel.process.start import Ending, Place, Start

__all__ = ["Brokered", "start_brokered"]

#: How often it is looked whether the caller still wants what a person is asked about (ms).
_LOOK_MS = 50


def start_brokered(start: Start, place: Place, stdin: int, stdout: int, stderr: int) -> Brokered:
    """Have ``start`` started; returns when it runs, which may take as long as a person does.

    Raises:
        PolicyDenied, EscalationDenied: the supervisor, or a person, refused it.
        BoxError: no box could be made for it, or nobody answers; it did not run.
    """
    if place.confined and place.narrowed is None:
        why = "a narrowed request starts no program that only the supervisor may start"
        raise BoxError("broker", why)
    assert start.program.file is not None
    # The box of a narrowed request has an environment of its own.
    environ = place.environ if place.narrowed is None else {}
    env = start.wanted({**environ, **start.env})
    try:
        calling = call(
            start.argv,
            start.cwd,
            env,
            (stdin, stdout, stderr),
            program=start.program.file,
            policy=_policy(start, place),
        )
    except WireError as error:
        raise PolicyDenied("request.too_complex", f"run {start.argv[0]}", True) from error
    try:
        _await_start(calling, start)
    except BaseException:
        calling.close()
        raise
    return Brokered(calling, place.around if place.narrowed is None else ())


def _policy(start: Start, place: Place) -> str:
    """What broker/narrowed.py reads; "" for nothing."""
    if place.narrowed is None:
        return ""
    return json.dumps({"policy": place.narrowed, "without_env": start.without_env})


def _await_start(calling: Calling, start: Start) -> None:
    poll = select.poll()
    poll.register(calling, select.POLLIN)
    while not calling.started and calling.outcome is None:
        if start.withdrawn is not None and start.withdrawn():
            raise BoxError("broker", "the call was withdrawn")
        if poll.poll(_LOOK_MS):
            calling.wait(0)
    if isinstance(calling.outcome, Refused):
        raise _refusal(calling.outcome)


def _refusal(refused: Refused) -> Exception:
    """The error that the supervisor raised."""
    fields = refused.fields
    if fields.get("error") == "EscalationDenied":
        return EscalationDenied(*_told(fields), fields["outcome"])
    if "code" in fields:
        return PolicyDenied(*_told(fields))
    return BoxError("broker", refused.text)


def _told(fields: Mapping[str, Any]) -> tuple[str, str, bool, str]:
    return fields["code"], fields["action"], fields["retryable"], fields["decision_id"]


class Brokered:
    """See :class:`axonkernel.process.start.Running`."""

    pid = 0  # of another pid namespace
    env_dropped: tuple[str, ...] = ()
    walls: tuple[str, ...] = ("broker", "box")

    def __init__(self, calling: Calling, around: tuple[str, ...]) -> None:
        self.held_by = around
        self._calling = calling
        self._since_s = time.monotonic()
        self._lock = threading.Lock()
        self._killed = False

    def fileno(self) -> int:
        """Readable when there is news for :meth:`ended`; -1 when it was killed."""
        return self._calling.fileno()

    def ended(self) -> bool:
        """Whether the program has ended; does not block."""
        with self._lock:
            return self._killed or self._calling.wait(0) is not None

    def wait(self) -> None:
        """Block until the program has ended."""
        poll = select.poll()
        if (descriptor := self.fileno()) >= 0:
            poll.register(descriptor, select.POLLIN)
        while not self.ended():
            poll.poll(1000)

    def end(self) -> Ending:
        """How it ended. Raises BoxError when its box did not hold."""
        with self._lock:
            outcome = self._calling.outcome
            self._calling.close()
        if self._killed and outcome is None:
            return Ending(137, used=Usage("killed", time.monotonic() - self._since_s))
        assert outcome is not None
        if isinstance(outcome, Refused):
            raise _refusal(outcome)
        if not self.held_by:
            self.held_by = tuple(outcome.fields.get("held_by", ()))
        return _ending(outcome)

    def kill(self) -> None:
        """End the program, by nobody's waiting for it any more."""
        with self._lock:
            self._killed = True
            self._calling.close()


def _ending(ended: Ended) -> Ending:
    told = ended.fields
    reason = told.get("reason", "exit")
    limit = reason if reason in ("wall", "memory") else ""
    peaks = {"wall": "wall_s", "memory": "peak_memory_bytes"}
    return Ending(
        128 + ended.signal if ended.signal else ended.status,
        limit,
        told.get(peaks[limit]) if limit else None,
        net_denied=tuple(Refusal(*each) for each in told.get("net_denied", ())),
        used=Usage(
            reason,
            told.get("wall_s", 0.0),
            told.get("cpu_s"),
            told.get("peak_memory_bytes"),
            told.get("peak_pids"),
        ),
        kept=tuple((what, path) for what, path in told.get("kept", ())),
    )
