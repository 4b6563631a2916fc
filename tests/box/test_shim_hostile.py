"""Peers of a broker that are no shims: they speak to its socket by hand, with what they like."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest

from axonkernel.broker import client, listener, wire
from axonkernel.broker.listener import Incoming
from axonkernel.broker.wire import Call, Ended, Refused
from axonkernel.errors import BoxError
from box.door import CALL, NONE, Door, Parts, send
from box.shimmed import WAITS_S, runs, until
from lab.processes import REPOSITORY

#: A supervisor with few descriptors; it answers until its input ends.
POOR = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))
sys.path.insert(0, sys.argv[2])
from axonkernel.broker.listener import Listener
from axonkernel.broker.wire import Ended
listener = Listener(sys.argv[1], lambda incoming: Ended(7))
print("ready", flush=True)
sys.stdin.read()
"""
BARE = wire.call_bytes(Call(("by", "hand"), "/", {}), ())
WRONG: dict[str, Parts] = {
    "noise": [(os.urandom(3000), 3)],
    "another protocol": [(b"GET / HTTP/1.0\r\n\r\n", 0)],
    "a head alone": [(CALL[:12], 3)],
    "half a head": [(CALL[:7], 3)],
    "half a call": [(CALL[:-5], 3)],
    "nothing but descriptors": [(b"A", 3)],
    "no descriptors": [(CALL, 0)],
    "one descriptor": [(CALL, 1)],
    "two descriptors": [(CALL, 2)],
    "four descriptors": [(CALL, 4)],
    "two hundred descriptors": [(CALL, 200)],
    "descriptors nobody spoke of": [(BARE, 3)],
    "descriptors too late": [(CALL[:12], 0), (CALL[12:], 3)],
    "descriptors twice": [(CALL[:20], 3), (CALL[20:], 3)],
    "more than a call": [(CALL + b"x", 3)],
    "two calls": [(CALL + CALL, 3)],
    "another word count": [(CALL.replace(b"\x002\x00", b"\x004\x00"), 3)],
    "no words": [(CALL.replace(b"\x002\x00", b"\x000\x00"), 3)],
    "a length of 4 GB": [(b"AXB1\xff\xff\xff\xff\7\0\0\0" + b"x" * 100_000, 3)],
    "a length of nothing": [(b"AXB1\0\0\0\0\7\0\0\0", 3)],
    "a folder": [(CALL, ("/", os.O_RDONLY))],
    "a file": [(CALL, (__file__, os.O_RDONLY))],
    "a path": [(CALL, (os.devnull, os.O_PATH))],
    "descriptors of a fourth kind": [(CALL[:8] + b"\x0f" + CALL[9:], 4)],
}


def descriptors() -> int:
    """How many this process has."""
    return len(os.listdir("/proc/self/fd"))


def heard(sock: socket.socket) -> bytes:
    """All that a peer gets to hear."""
    sock.shutdown(socket.SHUT_WR)
    said = b""
    try:
        while part := sock.recv(4096):
            said += part
    except ConnectionResetError:
        pass
    return said


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_no_call_gets_nothing(door: Door, kind: str) -> None:
    """Not a byte, no answer, no descriptor kept; an honest call beside it gets its own."""
    before = descriptors()
    with door.connect() as sock:
        send(sock, WRONG[kind])
        assert heard(sock) == b""
        assert door.honest("beside") == Ended(7)
    assert door.calls == [("beside",)]
    until(lambda: descriptors() == before)


@pytest.mark.parametrize("step", [1, 11, 5000])
def test_a_call_by_hand_is_a_call(door: Door, step: int) -> None:
    """The twin: the same bytes with the right descriptors, in any parts, are answered."""
    before = descriptors()
    pieces = [CALL[at : at + step] for at in range(0, len(CALL), step)]
    with door.connect() as sock:
        send(sock, [(piece, 0 if at else 3) for at, piece in enumerate(pieces)])
        assert sock.recv(100) == wire.reply_bytes(Ended(7))
        assert sock.recv(100) == b""
    assert door.calls == [("by", "hand")]
    until(lambda: descriptors() == before)


def test_idle_peers_take_no_place_from_others(door: Door) -> None:
    """Many more connections than there are places, which send nothing or half: a call passes."""
    with ExitStack() as stack:
        idle = [stack.enter_context(door.connect()) for _ in range(150)]
        for sock in idle[::3]:
            send(sock, [(CALL[:20], 3)])
        assert door.honest("passes") == Ended(7)
    assert door.calls == [("passes",)]


def test_a_peer_that_sends_nothing_is_hung_up_on(
    door: Door, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A place is lost after a while even when nobody else wants it."""
    monkeypatch.setattr(listener, "_ARRIVES_S", 0.05)
    with door.connect() as sock:
        assert sock.recv(1) == b""


def test_floods_beside_honest_calls(door: Door) -> None:
    """Threads that connect, send nonsense and go, again and again: calls are answered."""
    stop = threading.Event()
    floods = [0]

    def flood() -> None:
        kinds = list(WRONG.values())
        while not stop.is_set():
            with door.connect() as sock:
                send(sock, kinds[floods[0] % len(kinds)])
            floods[0] += 1

    threads = [threading.Thread(target=flood) for _ in range(4)]
    before = descriptors()
    for thread in threads:
        thread.start()
    try:
        assert [door.honest(f"{number}") for number in range(100)] == [Ended(7)] * 100
        until(lambda: floods[0] > 200)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert len(door.calls) == 100
    until(lambda: descriptors() == before)


def test_few_descriptors(tmp_path: Path) -> None:
    """A supervisor that runs out of descriptors drops peers, not itself: later calls pass."""
    place = tmp_path / "socket"
    words = [sys.executable, "-c", POOR, str(place), str(REPOSITORY)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        with ExitStack() as stack:
            for _ in range(80):
                sock = stack.enter_context(socket.socket(socket.AF_UNIX))
                sock.connect(str(place))
                send(sock, [(CALL[:15], 3)])
            with client.call(["x"], "/", {}, NONE, place=str(place)) as calling:
                try:
                    during = calling.wait(WAITS_S)
                except BoxError:  # there was no descriptor for it
                    during = Ended(7)
            assert during == Ended(7)
        with client.call(["x"], "/", {}, NONE, place=str(place)) as calling:
            assert calling.wait(WAITS_S) == Ended(7)
        process.stdin.close()
    assert process.returncode == 0


def test_a_flood_of_signals(door: Door) -> None:
    """A caller that sends signals without an end reaches its own program alone, which ends with
    it; other calls are answered meanwhile."""
    done: list[Ended] = []

    def answer(incoming: Incoming) -> Refused | Ended:
        if incoming.argv != ("flood",):
            return Ended(7)
        done.append(runs(incoming, ["sh", "-c", "trap : USR1; echo y >&0; while :; do :; done"]))
        return done[0]

    door.answer = answer
    ours, theirs = socket.socketpair()
    files = (theirs.fileno(), -1, -1)
    with client.call(["flood"], "/", {}, files, place=str(door.place)) as calling:
        assert ours.recv(2) == b"y\n", "the program runs"
        until(lambda: calling.wait(0) or calling.started)
        with socket.socket(fileno=os.dup(calling.fileno())) as sock:
            sock.settimeout(WAITS_S)
            for number in range(40):
                sock.sendall(bytes([signal.SIGUSR1, signal.SIGWINCH]) * 5_000)
                assert door.honest(f"{number}") == Ended(7)
        assert not done
    until(lambda: done)
    ours.close()
    theirs.close()
    assert done[0].status == 128 + 9


def test_peers_that_do_not_read(tmp_path: Path) -> None:
    """An outcome that nobody takes holds nobody up."""
    door = Door(tmp_path / "socket", lambda _: Refused(126, "x" * 10**6, {"y": "z" * 40_000}))
    with ExitStack() as stack:
        for _ in range(20):
            send(stack.enter_context(door.connect()), [(CALL, 3)])
        until(lambda: len(door.calls) == 20)
        door.listener.close()
