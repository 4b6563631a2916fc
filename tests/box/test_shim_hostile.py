"""Peers of a broker that are no shims: they speak to its socket by hand, with what they like."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from axonkernel.broker import client, listener, wire
from axonkernel.broker.listener import Incoming, Listener
from axonkernel.broker.wire import Call, Ended, Refused
from axonkernel.errors import BoxError, EscalationDenied
from box.shimmed import runs
from lab.processes import REPOSITORY, state

WAITS_S = 30.0
NONE = (-1, -1, -1)
NULL = (os.devnull, os.O_RDWR)
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
#: A supervisor that answers nobody and is forked; it prints the child's number.
FORKED = """
import os, sys, time
sys.path.insert(0, sys.argv[2])
from axonkernel.broker.listener import Listener
def answer(incoming):
    child = os.fork()
    if child == 0:
        time.sleep(100)
    print(child, flush=True)
    time.sleep(100)
listener = Listener(sys.argv[1], answer)
print("ready", flush=True)
time.sleep(100)
"""


class Door:
    """A listener, and what it was asked."""

    def __init__(self, place: Path, answer: Callable[[Incoming], Refused | Ended]) -> None:
        self.place = place
        self.calls: list[tuple[str, ...]] = []
        self.answer = answer
        self.listener = Listener(place, self._answer)

    def _answer(self, incoming: Incoming) -> Refused | Ended:
        self.calls.append(incoming.argv)
        return self.answer(incoming)

    def connect(self) -> socket.socket:
        """A connection of somebody."""
        sock = socket.socket(socket.AF_UNIX)
        sock.settimeout(WAITS_S)
        sock.connect(str(self.place))
        return sock

    def honest(self, *words: str) -> Refused | Ended | None:
        """The outcome of a call as it should be."""
        with client.call(words, "/", {}, NONE, place=str(self.place)) as calling:
            return calling.wait(WAITS_S)


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    """A broker that says 7 to every call."""
    made = Door(tmp_path / "socket", lambda _: Ended(7))
    yield made
    made.listener.close()


def until(holds: Callable[[], Any]) -> None:
    """Wait until something holds."""
    end_s = time.monotonic() + WAITS_S
    while not holds():
        assert time.monotonic() < end_s, "it never came"
        time.sleep(0.005)


def descriptors() -> int:
    """How many this process has."""
    return len(os.listdir("/proc/self/fd"))


CALL = wire.call_bytes(Call(("by", "hand"), "/", {"A": "1"}), (0, 1, 2))
BARE = wire.call_bytes(Call(("by", "hand"), "/", {}), ())
#: What is sent, in parts, each with so many descriptors of /dev/null, or three of something else.
Parts = Sequence[tuple[bytes, int | tuple[str, int]]]

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


def send(sock: socket.socket, parts: Parts) -> None:
    """Send what a peer might."""
    for data, what in parts:
        (path, flags), count = (
            ((os.devnull, os.O_RDWR), what) if isinstance(what, int) else (what, 3)
        )
        descriptor = os.open(path, flags)
        try:
            given = [descriptor] * count
            sent = socket.send_fds(sock, [data], given) if given else sock.send(data)
            if sent < len(data):
                sock.sendall(data[sent:])
            while unread(sock):  # so that it arrives in the same parts
                time.sleep(0.001)
        except OSError:  # hung up on, as it should be
            return
        finally:
            os.close(descriptor)


def unread(sock: socket.socket) -> int:
    """Bytes that the other side has not taken yet."""
    return struct.unpack("i", fcntl.ioctl(sock, termios.TIOCOUTQ, bytes(4)))[0]


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


def test_a_forked_child_holds_no_caller(tmp_path: Path) -> None:
    """Callers see the end of a supervisor that has forked, though the child lives on."""
    place = tmp_path / "socket"
    words = [sys.executable, "-c", FORKED, str(place), str(REPOSITORY)]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        with client.call(["x"], "/", {}, NONE, place=str(place)) as calling:
            child = int(process.stdout.readline())
            try:
                process.kill()
                with pytest.raises(BoxError, match="hung up"):
                    calling.wait(WAITS_S)
                assert state(child) == "S"
            finally:
                os.kill(child, signal.SIGKILL)


@pytest.mark.parametrize("bad", [b"\x09", b"\x00", b"\xff", b"\x0f" * 40 + b"\x13"])
def test_signals_that_are_none_end_the_program(tmp_path: Path, bad: bytes) -> None:
    """Only signals that a shim relays are passed on: anything else ends the call."""
    done: list[Ended] = []

    def answer(incoming: Incoming) -> Refused | Ended:
        done.append(runs(incoming, ["sh", "-c", "trap '' TERM; echo y >&0; sleep 100"]))
        return done[0]

    door = Door(tmp_path / "socket", answer)
    ours, theirs = socket.socketpair()
    with client.call(["x"], "/", {}, (theirs.fileno(), -1, -1), place=str(door.place)) as calling:
        assert ours.recv(2) == b"y\n", "the program runs"
        until(lambda: calling.wait(0) or calling.started)
        os.write(calling.fileno(), bad)
        until(lambda: done)
    door.listener.close()
    ours.close()
    theirs.close()
    assert done[0].status == 128 + 9


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


def test_bytes_before_the_program_runs_end_the_call(tmp_path: Path) -> None:
    """A peer that sends more than its call while a person is asked has lost it."""
    asked = threading.Event()

    def answer(incoming: Incoming) -> Refused | Ended:
        assert not incoming.gone()
        asked.set()
        until(incoming.gone)
        return Refused(126, "lost")

    door = Door(tmp_path / "socket", answer)
    with door.connect() as sock:
        send(sock, [(CALL, 3)])
        assert asked.wait(WAITS_S)
        sock.send(b"\x02")
        assert sock.recv(8)[:2] == b"R\x7e"
    door.listener.close()


def test_a_peer_that_hands_over_its_own_end(tmp_path: Path) -> None:
    """A caller that cannot be seen to die, as its end is its program's input, ends with the
    listener."""
    done: list[Ended] = []

    def answer(incoming: Incoming) -> Refused | Ended:
        done.append(runs(incoming, ["sleep", "100"]))
        return done[0]

    door = Door(tmp_path / "socket", answer)
    sock = door.connect()
    socket.send_fds(sock, [CALL], [sock.fileno()] * 3)
    assert sock.recv(100) == wire.reply_bytes(wire.Started())
    sock.close()
    assert not done
    door.listener.close()
    assert done[0].status == 128 + 9


def test_peers_that_do_not_read(tmp_path: Path) -> None:
    """An outcome that nobody takes holds nobody up."""
    door = Door(tmp_path / "socket", lambda _: Refused(126, "x" * 10**6, {"y": "z" * 40_000}))
    with ExitStack() as stack:
        for _ in range(20):
            send(stack.enter_context(door.connect()), [(CALL, 3)])
        until(lambda: len(door.calls) == 20)
        door.listener.close()


def test_more_calls_than_answers_at_a_time(tmp_path: Path) -> None:
    """Calls beyond the most wait and are answered later; who died while waiting is not."""
    go = threading.Event()

    def answer(_: Incoming) -> Refused | Ended:
        assert go.wait(WAITS_S)
        return Ended(7)

    place = tmp_path / "socket"
    door = Door(place, answer)
    door.listener.close()
    place.unlink()
    door.listener = Listener(place, door._answer, most=2)
    callings = [client.call([f"{number}"], "/", {}, NONE, place=str(place)) for number in range(60)]
    until(lambda: len(door.calls) == 2)
    for calling in callings[10:20]:
        calling.close()
    go.set()
    left = [*callings[:10], *callings[20:]]
    assert [calling.wait(WAITS_S) for calling in left] == [Ended(7)] * 50
    for calling in left:
        calling.close()
    door.listener.close()
    assert not {f"{number}" for number in range(10, 20)}.intersection(
        *zip(*door.calls, strict=True)
    )


def test_an_answer_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault of the supervisor's is a denial without a reason, and not silent there."""
    told: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", told.append)

    def answer(_: Incoming) -> Refused | Ended:
        raise RuntimeError("secret of the supervisor")

    door = Door(tmp_path / "socket", answer)
    outcome = door.honest("x")
    door.listener.close()
    assert [each.exc_type for each in told] == [RuntimeError]
    assert isinstance(outcome, Refused) and outcome.code == 126
    assert "denied (internal)" in outcome.text and "secret" not in outcome.text


def test_a_denial_keeps_its_type_for_python(tmp_path: Path) -> None:
    """What the client gets is enough to raise the denial that was raised outside."""
    denial = EscalationDenied("shell.args", "git push", decision_id="d1", outcome="timeout")

    def answer(_: Incoming) -> Refused | Ended:
        raise denial

    door = Door(tmp_path / "socket", answer)
    outcome = door.honest("x")
    door.listener.close()
    assert outcome == Refused(126, str(denial), denial.as_dict())


def test_client_and_a_supervisor_that_is_gone(door: Door) -> None:
    """No supervisor, and one that hangs up, are errors of the box; nothing ran."""
    with pytest.raises(BoxError, match="no supervisor"):
        client.call(["x"], "/", {}, NONE, place=str(door.place) + "-")
    quiet = socket.socket(socket.AF_UNIX)
    quiet.bind(str(door.place) + "-quiet")
    quiet.listen()
    calling = client.call(["x"], "/", {}, NONE, place=str(door.place) + "-quiet")
    assert calling.wait(0) is None
    quiet.close()
    with pytest.raises(BoxError, match="did not run"):
        calling.wait(WAITS_S)
    calling.close()
