"""Timing by turns: every side is timed in every round, so that all see the same machine."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

__all__ = ["Absent", "Samples", "by_turns", "per_call", "run", "timed"]

#: Gives the seconds that one go took.
Action = Callable[[], float]


class Absent(Exception):
    """This machine cannot say; the text tells what is missing."""


class Samples(NamedTuple):
    """Seconds of every side, one per round."""

    seconds: Mapping[str, Sequence[float]]

    @property
    def n(self) -> int:
        """Rounds."""
        return min(len(values) for values in self.seconds.values())

    @property
    def medians(self) -> dict[str, float]:
        """The median of each side, in seconds."""
        return {name: statistics.median(values) for name, values in self.seconds.items()}

    def ratio(self, subject: str, base: str) -> float:
        """How many times the base's median the subject's is."""
        return self.medians[subject] / self.medians[base]

    def beyond(self, subject: str, base: str) -> float:
        """How many seconds the subject's median is over the base's."""
        return self.medians[subject] - self.medians[base]


def by_turns(rounds: int, actions: Mapping[str, Action]) -> Samples:
    """Time each action once per round, forwards and backwards by turns.

    One round before the first is thrown away: it fills caches.
    """
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    order = list(actions)
    for number in range(rounds + 1):
        for name in order if number % 2 else reversed(order):
            took = actions[name]()
            if number:
                seconds[name].append(took)
    return Samples(seconds)


def timed(function: Callable[[], object]) -> Action:
    """An action that times ``function`` from outside."""

    def action() -> float:
        start_s = time.perf_counter()
        function()
        return time.perf_counter() - start_s

    return action


def per_call(function: Callable[[], object], calls: int) -> Action:
    """An action that gives the seconds of one call, of ``calls`` in a row."""

    def action() -> float:
        start_s = time.perf_counter()
        for _ in range(calls):
            function()
        return (time.perf_counter() - start_s) / calls

    return action


def run(argv: Sequence[str]) -> None:
    """Run a program quietly and wait. Raises RuntimeError when it does not end with 0."""
    nothing = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
    quiet = (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)
    # posix_spawn: the cheapest start there is, whatever this process holds in memory.
    pid = os.posix_spawnp(argv[0], list(argv), os.environ, file_actions=[nothing, quiet])
    _, status = os.waitpid(pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(argv)}: wait status {status}")
