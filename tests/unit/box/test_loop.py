"""The loop of a box's resolver: descriptors and moments, one call after the other."""

from __future__ import annotations

import os

from axonkernel.box.resolver.loop import Loop


def test_what_is_readable_is_called_until_it_is_removed() -> None:
    """A pipe with a byte, again and again; removed by a call in the same turn, not at all."""
    loop = Loop()
    one, two = os.pipe(), os.pipe()
    calls: list[int] = []

    def first() -> None:
        calls.append(1)
        loop.remove(two[0])
        if len(calls) == 3:
            loop.stop()

    loop.add(one[0], first)
    loop.add(two[0], lambda: calls.append(2))
    for _, write in (one, two):
        os.write(write, b"x")
    loop.after(5.0, loop.stop)
    loop.run()
    assert calls == [1, 1, 1]
    for fd in (*one, *two):
        os.close(fd)


def test_moments_come_in_their_order_and_cancelled_ones_do_not() -> None:
    """Once, or again and again until cancelled, from within a call as well."""
    loop = Loop()
    told: list[str] = []

    def tick() -> None:
        told.append("tick")
        if told.count("tick") == 3:
            ticking.cancel()
            loop.after(0.01, loop.stop)

    loop.after(0.002, lambda: told.append("later"))
    loop.after(0.0, lambda: told.append("now"))
    loop.after(0.001, lambda: told.append("never")).cancel()
    ticking = loop.every(0.004, tick)
    loop.run()
    assert told == ["now", "later", "tick", "tick", "tick"]
