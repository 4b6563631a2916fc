"""The wall clock, with a time that the test turns."""

from __future__ import annotations

import pytest

from axonkernel.box import clock
from axonkernel.box.clock import WallClock


class Time:
    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    turned = Time()
    monkeypatch.setattr(clock, "time", turned)
    return turned


def test_it_counts_down_to_zero(time: Time) -> None:
    """And never below."""
    wall = WallClock(10.0)
    assert wall.left_s() == 10.0
    time.now += 4
    assert wall.left_s() == 6.0
    time.now += 40
    assert wall.left_s() == 0.0


def test_it_stands_still_while_a_human_is_asked(time: Time) -> None:
    """Paused time does not count; pausing or resuming twice changes nothing."""
    wall = WallClock(10.0)
    time.now += 3
    wall.pause()
    wall.pause()
    time.now += 1000
    assert wall.left_s() is None
    wall.resume()
    wall.resume()
    assert wall.left_s() == 7.0
    time.now += 2
    wall.resume()
    assert wall.left_s() == 5.0


def test_no_limit_never_ends(time: Time) -> None:
    """Zero means none, paused or not."""
    wall = WallClock(0.0)
    time.now += 1e9
    assert wall.left_s() is None
    wall.pause()
    wall.resume()
    assert wall.left_s() is None
