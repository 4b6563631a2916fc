"""Telling a supervisor of refusals never waits for it, and loses nothing."""

from __future__ import annotations

import socket
from typing import Any

from axonkernel.box.channel import Channel, pair
from axonkernel.box.model import Refusal
from axonkernel.box.resolver.reports import Refusals
from axonkernel.box.telling import Telling


def refusal(number: int) -> Refusal:
    return Refusal(f"192.0.2.{number}", "tcp", 443, "a" * 200, first_s=1.0, last_s=1.0)


def told(channel: Channel, count: int) -> list[Any]:
    """The refusals of the next messages, until there are so many."""
    found: list[Any] = []
    while len(found) < count:
        found += channel.receive()[0]["refused"]
    return found


def test_a_supervisor_that_does_not_read_keeps_nobody_waiting() -> None:
    """What finds no room is told with the next that does, in its latest state."""
    ours, theirs = pair()
    filler = socket.socket(fileno=socket.dup(theirs.fileno()))
    filler.setblocking(False)
    telling = Telling(Refusals(), theirs)
    sent = 0
    try:
        while True:
            sent += filler.send(bytes(1000))
    except BlockingIOError:
        pass
    for number in range(50):
        telling.note([refusal(number)])  # would hang here
    telling.note([refusal(7)._replace(last_s=9.0)], asked=["a.test"])
    reader = socket.socket(fileno=socket.dup(ours.fileno()))
    while sent:
        sent -= len(reader.recv(min(sent, 65536)))
    telling.note([])
    message, _ = ours.receive()
    assert message["asked"] == ["a.test"] and len(message["refused"]) == 50
    assert {each[0]: each[4] for each in message["refused"]}["192.0.2.7"] == 2
    for each in (filler, reader, ours, theirs):
        each.close()


def test_each_is_told_once_and_names_that_wait_every_time() -> None:
    """A second try soon after is not told; a question is, since somebody waits for it."""
    ours, theirs = pair()
    telling = Telling(Refusals(), theirs)
    telling.note([refusal(1), refusal(2)])
    assert [each[0] for each in told(ours, 2)] == ["192.0.2.1", "192.0.2.2"]
    telling.note([refusal(1)])
    telling.note([refusal(1)], asked=["a.test"])
    telling.note([], asked=["a.test"])
    for _ in range(2):
        message, _ = ours.receive()
        assert (message["refused"], message["asked"]) == ([], ["a.test"])
    ours.close()
    theirs.close()
