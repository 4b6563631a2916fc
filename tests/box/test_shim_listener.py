"""A broker's listener: calls that wait, that end early, that fail; what its client learns."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from axonkernel.broker import client, wire
from axonkernel.broker.listener import Incoming, Listener
from axonkernel.broker.wire import Ended, Refused
from axonkernel.errors import BoxError, EscalationDenied
from box.door import CALL, NONE, Door, send
from box.shimmed import WAITS_S, runs, until
from lab.processes import REPOSITORY, state

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
