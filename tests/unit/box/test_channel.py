"""Messages over a socket, when the peer is one of ours and when it is not."""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from axonkernel.box.channel import MAX_FOREIGN_BYTES, MAX_FRAME_BYTES, Channel, ChannelClosed, pair

Ends = tuple[Channel, Channel]


@pytest.fixture
def ends() -> Iterator[Ends]:
    left, right = pair()
    yield left, right
    left.close()
    right.close()


@pytest.fixture
def raw() -> Iterator[tuple[socket.socket, Channel]]:
    """A peer that is not ours, and our end."""
    theirs, ours = socket.socketpair()
    channel = Channel(ours)
    yield theirs, channel
    theirs.close()
    channel.close()


@pytest.mark.parametrize(
    "message", [{}, {"a": [1, None, "ü\udcff"]}, {"text": "x" * 3_000_000}], ids=lambda m: len(m)
)
def test_what_is_sent_arrives(ends: Ends, message: dict[str, Any]) -> None:
    """Of any size, in both directions, in order."""
    for sender, receiver in (ends, ends[::-1]):
        thread = threading.Thread(target=lambda s=sender: (s.send(message), s.send({"n": 2})))
        thread.start()
        assert receiver.receive() == (message, ())
        assert receiver.receive() == ({"n": 2}, ())
        thread.join()


def test_descriptors_ride_along(ends: Ends) -> None:
    """They belong to their message and are closed on exec."""
    left, right = ends
    read, write = os.pipe()
    left.send({"n": 1}, (read, write))
    left.send({"n": 2})
    message, found = right.receive()
    assert message == {"n": 1} and len(found) == 2
    assert right.receive() == ({"n": 2}, ())
    os.write(found[1], b"x")
    assert os.read(read, 1) == b"x"
    assert not any(map(os.get_inheritable, found))
    for fd in (read, write, *found):
        os.close(fd)


def test_the_end_is_told_on_both_sides(ends: Ends) -> None:
    """Receiving and sending raise ChannelClosed once the peer is gone."""
    left, right = ends
    right.close()
    with pytest.raises(ChannelClosed):
        left.receive()
    with pytest.raises(ChannelClosed):
        for _ in range(100):
            left.send({"text": "x" * 10_000})


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\0\0",
        struct.pack("!I", 10) + b"{}",
        struct.pack("!I", MAX_FRAME_BYTES + 1) + b"{}",
        struct.pack("!I", 0xFFFFFFFF),
        struct.pack("!I", 0),
        struct.pack("!I", 2) + b"[]",
        struct.pack("!I", 4) + b"null",
        struct.pack("!I", 3) + b"{x}",
        struct.pack("!I", 2) + b"\xff\xfe",
        struct.pack("!I", 200_000) + b"[" * 200_000,
    ],
    ids=["end", "cut-length", "cut-body", "too-long", "longest", "empty", "list", "null",
         "not-json", "not-utf8", "deep"],
)  # fmt: skip
def test_whatever_is_no_message_ends_the_channel(
    raw: tuple[socket.socket, Channel], frame: bytes
) -> None:
    """One error, without waiting for what was announced and without its memory."""
    theirs, channel = raw
    sending = threading.Thread(target=send_and_end, args=(theirs, frame))
    sending.start()
    with pytest.raises(ChannelClosed):
        channel.receive()
    channel.close()
    sending.join()


def send_and_end(sock: socket.socket, frame: bytes) -> None:
    with contextlib.suppress(OSError):  # the other end may have seen enough
        sock.sendall(frame)
        sock.shutdown(socket.SHUT_WR)


def test_an_agents_frames_and_descriptors_are_not_trusted(
    raw: tuple[socket.socket, Channel],
) -> None:
    """No descriptor of its own stays open here, and its frames have a smaller cap."""
    theirs, channel = raw
    channel.distrust()
    before = os.listdir("/proc/self/fd")
    body = b'{"a": 1}'
    for _ in range(50):
        socket.send_fds(theirs, [struct.pack("!I", len(body)) + body], [0, 0, 0])
        assert channel.receive() == ({"a": 1}, ())
    assert os.listdir("/proc/self/fd") == before
    theirs.sendall(struct.pack("!I", MAX_FOREIGN_BYTES + 1))
    with pytest.raises(ChannelClosed):
        channel.receive()


def test_a_frame_in_small_parts(raw: tuple[socket.socket, Channel]) -> None:
    """A stream may cut anywhere."""
    theirs, channel = raw
    body = b'{"a": 1}'
    for byte in struct.pack("!I", len(body)) + body:
        theirs.send(bytes([byte]))
    assert channel.receive() == ({"a": 1}, ())


def test_our_own_frames_have_the_same_cap(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    """Too much is a ValueError here, not a broken channel there."""
    monkeypatch.setattr("axonkernel.box.channel.MAX_FRAME_BYTES", 100)
    with pytest.raises(ValueError, match="over 100"):
        ends[0].send({"text": "x" * 100})
    ends[0].send({"n": 1})
    assert ends[1].receive()[0] == {"n": 1}
