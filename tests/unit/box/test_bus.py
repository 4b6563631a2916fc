"""Every way systemd can be missing: refused in seconds, by name, and nothing hangs."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from axonkernel.box import bus
from axonkernel.box.bus import Program, Refused, Typed
from axonkernel.box.systemd import Manager
from axonkernel.errors import IsolationUnavailable

GREETING = b"OK 0123456789abcdef0123456789abcdef\r\n"


@pytest.fixture
def booted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose init is systemd, as far as files tell; returns an empty runtime folder."""
    monkeypatch.setattr(bus, "BOOTED", str(tmp_path))
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def listener(booted: Path) -> Iterator[socket.socket]:
    """A bus that accepts and never says a word."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(booted / "bus"))
        listening.listen()
        yield listening


@contextlib.contextmanager
def answering(listener: socket.socket, answer: bytes) -> Iterator[None]:
    """Every client of ``listener`` has one answer, and nothing after it."""

    def serve() -> None:
        with contextlib.ExitStack() as peers:
            while True:
                try:
                    peer = peers.enter_context(listener.accept()[0])
                except OSError:
                    return
                peer.recv(100)
                peer.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    yield
    listener.shutdown(socket.SHUT_RDWR)
    thread.join()


def refusal(action: Callable[[], Any] = lambda: Manager(user=True)) -> IsolationUnavailable:
    started_s = time.monotonic()
    with pytest.raises(IsolationUnavailable) as caught:
        action()
    # The bound a caller has; each wait in it is 4 s at most.
    assert time.monotonic() - started_s < 15.0
    assert caught.value.field == "limits"
    assert caught.value.missing == "systemd user manager"
    return caught.value


def test_another_init_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """PID 1 is not systemd: no command can help, and the message does not pretend."""
    monkeypatch.setattr(bus, "BOOTED", "/nonexistent")
    assert refusal().fix.startswith("run where systemd is the init system")


def test_no_runtime_folder(booted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session without XDG_RUNTIME_DIR (su, cron): linger is the fix."""
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    error = refusal()
    assert "loginctl enable-linger" in error.fix
    assert "XDG_RUNTIME_DIR is not set" in error.fix


@pytest.mark.usefixtures("booted")
def test_no_bus_socket() -> None:
    """The folder is there and the bus is not."""
    assert "loginctl enable-linger" in refusal().fix


@pytest.mark.usefixtures("listener")
def test_a_silent_bus_does_not_hang_the_launch() -> None:
    """It accepts and says nothing: a refusal, where the libraries would wait without end."""
    assert "no answer from the bus" in refusal().fix


def test_a_bus_that_refuses(listener: socket.socket) -> None:
    """A bus of another user says REJECTED."""
    with answering(listener, b"REJECTED EXTERNAL\r\n"):
        assert "refuses this user" in refusal().fix


@pytest.mark.parametrize(
    "address",
    ["nonsense", "unix:", "tcp:host=127.0.0.1,port=1", "unix:path=/nonexistent/bus", "autolaunch:",
     "unix:path=" + "long" * 100, "unix:path=/etc/passwd"],
)  # fmt: skip
@pytest.mark.usefixtures("booted")
def test_a_wrong_address(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """DBUS_SESSION_BUS_ADDRESS that points nowhere: no traceback and no other bus instead."""
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", address)
    assert address in refusal().fix


@pytest.mark.parametrize("over", ["binding", "program"])
def test_a_bus_that_stops_after_its_greeting(
    listener: socket.socket, over: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lets us in and answers nothing more: bounded over either transport."""
    if over == "program":
        monkeypatch.setitem(sys.modules, "pydbus", None)
    else:
        pytest.importorskip("pydbus", reason="pydbus: apt-get install python3-gi")
        monkeypatch.setattr(bus, "Program", lambda user: pytest.fail("the binding is there"))
    with answering(listener, GREETING):
        assert "fix:" in str(refusal(lambda: Manager(user=True).named("x*")))


@pytest.mark.usefixtures("booted")
def test_no_transport_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the binding nor busctl: said so."""
    monkeypatch.setattr(bus, "unreachable", lambda user: "")
    monkeypatch.setitem(sys.modules, "pydbus", None)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "neither pydbus nor busctl" in refusal().fix


# -- what busctl is given, and what it gives ----------------------------------------------


def test_values_as_busctl_takes_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays with their lengths, variants with their types; the answer is its JSON."""
    fake = tmp_path / "busctl"
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$*" > "${0%/*}/seen"\n'
                    """echo '{"type":"v","data":[{"type":"s","data":"loaded"}]}'\n""")  # fmt: skip
    fake.chmod(0o755)
    monkeypatch.setattr(bus, "find", lambda name: str(fake))
    given = [("MemoryMax", Typed("t", 60)), ("Accounting", Typed("b", True)),
             ("PIDs", Typed("au", [1, 22]))]  # fmt: skip
    answer = Program(True).call("/p", "i.f", "Start", "ssa(sv)a(sa(sv))", "u", "fail", given, [])
    assert answer == "loaded"
    words = (tmp_path / "seen").read_text().split()
    assert words[:3] == ["--user", "--json=short", "--timeout=4"]
    assert (
        words[3:]
        == (
            "call org.freedesktop.systemd1 /p i.f Start ssa(sv)a(sa(sv)) u fail "
            "3 MemoryMax t 60 Accounting b true PIDs au 2 1 22 0"
        ).split()
    )


def test_what_busctl_says_is_the_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refusal in systemd's own words; a program that hangs is given up."""
    fake = tmp_path / "busctl"
    fake.write_text("#!/bin/sh\necho 'Call failed: Access denied' >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(bus, "find", lambda name: str(fake))
    with pytest.raises(Refused, match=r"\AAccess denied\Z"):
        Program(True).call("/p", "i.f", "Stop", "")
    fake.write_text("#!/bin/sh\nexec sleep 60\n")
    monkeypatch.setattr(bus, "PATIENCE_S", 0.2)
    with pytest.raises(Refused, match="did not answer"):
        Program(True).call("/p", "i.f", "Stop", "")


def test_the_binding_is_not_loaded_for_one_call(booted: Path) -> None:
    """A command of one box takes the program, which is there at once."""
    code = (
        "import sys; from axonkernel.box import bus; bus.unreachable = lambda user: ''\n"
        "bus.find = lambda name: '/bin/' + name\n"
        "print(type(bus.connect(True, brief=True)).__name__, 'pydbus' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["Program", "False"]
