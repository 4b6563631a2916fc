"""As many spares wait as bursts asked for, and few when nothing does."""

from __future__ import annotations

import threading
import time

from axonkernel.box.channel import pair
from axonkernel.box.spares import Spares


class Spare:
    """A process that waits, as the pool sees it."""

    def __init__(self, made: list[Spare]) -> None:
        self.closed = False
        made.append(self)

    def close(self) -> None:
        self.closed = True


class Clock:
    """Seconds, by hand."""

    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def idle(spares: Spares[Spare], pause_s: float = 0.05) -> None:
    """Let the pool do what it does while nobody asks."""
    ours, theirs = pair()

    def ask() -> None:
        time.sleep(pause_s)
        ours.send({})

    thread = threading.Thread(target=ask)
    thread.start()
    spares.await_request(theirs)
    thread.join()
    ours.close()
    theirs.close()


def test_a_burst_makes_the_pool_grow_up_to_its_cap() -> None:
    """One waits at first; after a burst of twelve, five of at most five."""
    made: list[Spare] = []
    spares = Spares(lambda: Spare(made), most=5, clock=Clock())
    idle(spares)
    assert len(spares) == 1
    taken = [spares.take() for _ in range(12)]
    assert len(set(map(id, taken))) == 12 and not any(spare.closed for spare in taken)
    idle(spares)
    assert len(spares) == 5 and len(made) == 17


def test_what_is_not_taken_for_a_period_is_let_go() -> None:
    """Down to one when idle; what a steady use takes stays."""
    made: list[Spare] = []
    clock = Clock()
    spares = Spares(lambda: Spare(made), most=8, clock=clock)
    for _ in range(8):
        spares.take()
    idle(spares)
    assert len(spares) == 8
    for _ in range(3):  # five of the eight are never taken
        clock.now_s += 6
        for _ in range(3):
            spares.take()
        idle(spares)
    assert 3 <= len(spares) <= 4
    for _ in range(3):
        clock.now_s += 6
        idle(spares)
    assert len(spares) == 1
    assert sum(spare.closed for spare in made) == len(made) - 8 - 9 - 1


def test_a_request_comes_before_the_next_fork() -> None:
    """Who waits is served first; the pool is filled afterwards."""
    made: list[Spare] = []
    spares = Spares(lambda: Spare(made), most=8, clock=Clock())
    ours, theirs = pair()
    ours.send({})
    spares.await_request(theirs)
    assert not made
    ours.close()
    theirs.close()
