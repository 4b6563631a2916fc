"""Call systemd's methods over D-Bus: by the binding, or by the program ``busctl``.

Both are one method, ``call``, so whatever is built on it works over either. Standard library
only at import. No call waits longer than :data:`PATIENCE_S`.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar

from axonkernel.box.programs import find, run

__all__ = ["PATIENCE_S", "Binding", "Bus", "Program", "Refused", "Typed", "connect", "unreachable"]

#: How long systemd may take to answer one call.
PATIENCE_S = 4.0
#: Where systemd is the init system, by sd_booted(3).
BOOTED = "/run/systemd/system"

_NAME = "org.freedesktop.systemd1"
Result = TypeVar("Result")


class Refused(Exception):
    """systemd did not do it, or could not be asked: why, in its own words."""


class Typed(NamedTuple):
    """A value that carries its D-Bus type, as properties do."""

    kind: str
    value: Any


class Bus(Protocol):
    """A way to one manager."""

    def call(self, path: str, interface: str, method: str, signature: str, *values: Any) -> Any:
        """Call a method of an object of systemd's.

        Arguments:
            signature: the types of ``values``; structs are tuples, arrays lists and variants
                :class:`Typed`.

        Returns what the method returns; None for nothing. Raises Refused.
        """
        ...


def connect(user: bool, *, brief: bool = False) -> Bus:
    """The way to the system's or the user's manager.

    Arguments:
        brief: for a process that makes one call or two: loading the binding takes as long
            as six calls of the program.

    Raises Refused, in about :data:`PATIENCE_S` at the latest.
    """
    if reason := unreachable(user):
        raise Refused(reason)
    kinds: list[Callable[[bool], Bus]] = [Binding, Program]
    for kind in reversed(kinds) if brief and "pydbus" not in sys.modules else kinds:
        with contextlib.suppress(ImportError):
            return kind(user)
    raise Refused("neither pydbus nor busctl is installed")


class Binding:
    """Over pydbus. Raises ImportError where it is not installed, Refused without a bus."""

    def __init__(self, user: bool) -> None:
        try:
            import pydbus
            from gi.repository import GLib
        except (ValueError, AttributeError) as error:  # a typelib or a library is missing
            raise ImportError(str(error)) from None
        self._variant, self._error = pydbus.Variant, GLib.Error
        # Not SystemBus(): that connection ends this process when the bus is restarted.
        self._connect = lambda: pydbus.connect(_address(user)).con
        self._connection = self._within(self._connect)

    def call(self, path: str, interface: str, method: str, signature: str, *values: Any) -> Any:
        """See :class:`Bus`."""
        body = self._variant(f"({signature})", self._marshalled(values))
        if self._connection.is_closed():  # the bus was restarted
            self._connection = self._within(self._connect)
        wait_ms = int(PATIENCE_S * 1000)
        try:
            # No proxy object: that would ask for the manager's long description first.
            reply = self._connection.call_sync(
                _NAME, path, interface, method, body, None, 0, wait_ms, None
            )
        except self._error as error:
            raise Refused(str(error.message)) from None
        return next(iter(reply.unpack()), None)

    def _marshalled(self, value: Any) -> Any:
        if isinstance(value, Typed):
            return self._variant(value.kind, value.value)
        if isinstance(value, (list, tuple)):
            return type(value)(self._marshalled(each) for each in value)
        return value

    def _within(self, action: Callable[[], Result]) -> Result:
        """The result of ``action``, which may wait without end for a bus that says nothing."""
        done: list[Result] = []
        failed: list[Exception] = []

        def attempt() -> None:
            try:
                done.append(action())
            except self._error as error:
                failed.append(Refused(str(error.message)))
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=attempt, daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
        for error in failed:
            raise error
        if not done:
            raise Refused(f"the bus did not greet in {PATIENCE_S:g} s")
        return done[0]


class Program:
    """Over busctl. Raises ImportError where it is not installed."""

    def __init__(self, user: bool) -> None:
        program = find("busctl")
        if program is None:
            raise ImportError("busctl")
        self._argv = [program, "--user" if user else "--system", "--json=short"]
        self._argv.append(f"--timeout={PATIENCE_S:g}")

    def call(self, path: str, interface: str, method: str, signature: str, *values: Any) -> Any:
        """See :class:`Bus`."""
        words = [signature, *_words(values)] if signature else []
        try:
            argv = [*self._argv, "call", _NAME, path, interface, method, *words]
            done = run(argv, timeout_s=PATIENCE_S)
        except TimeoutError as error:
            raise Refused(str(error)) from None
        if done.code != 0:
            said = done.err.strip().removeprefix("Call failed: ")
            raise Refused(said or f"busctl ended with {done.code}")
        return _plain(json.loads(done.out)["data"][0]) if done.out.strip() else None


def _words(value: Any) -> list[str]:
    """A value as busctl takes it: arrays with their length, variants with their type."""
    if isinstance(value, Typed):
        return [value.kind, *_words(value.value)]
    if isinstance(value, list):
        return [str(len(value)), *(word for each in value for word in _words(each))]
    if isinstance(value, tuple):
        return [word for each in value for word in _words(each)]
    return [str(value).lower() if isinstance(value, bool) else str(value)]


def _plain(data: Any) -> Any:
    return data["data"] if isinstance(data, dict) else data


# -- is anybody there -------------------------------------------------------------------


def unreachable(user: bool) -> str:
    """Why no manager can be asked, told without asking it; "" when one may be there."""
    if not os.path.isdir(BOOTED):
        return "systemd does not run here"
    try:
        return _silent(_address(user))
    except Refused as refused:
        return str(refused)


def _address(user: bool) -> str:
    address = os.environ.get(f"DBUS_{'SESSION' if user else 'SYSTEM'}_BUS_ADDRESS", "")
    if address:
        return address
    folder = os.environ.get("XDG_RUNTIME_DIR") if user else "/run/dbus"
    if not folder:
        raise Refused("XDG_RUNTIME_DIR is not set")
    return f"unix:path={folder}/{'bus' if user else 'system_bus_socket'}"


def _silent(address: str) -> str:
    """Why the bus at a unix address does not greet; "" when it does.

    The libraries wait for a greeting without end.
    """
    import socket

    kind, _, rest = address.partition(":")
    pairs = rest.split(";")[0].split(",")
    names = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    path = names.get("path") or "\0" + names.get("abstract", "")
    if kind != "unix" or path == "\0":
        return f"{address!r} is no address of a bus"
    identity = str(os.geteuid()).encode().hex()
    with socket.socket(socket.AF_UNIX) as bus:
        bus.settimeout(PATIENCE_S / 2)
        try:
            bus.connect(path)
            bus.sendall(f"\0AUTH EXTERNAL {identity}\r\n".encode())
            greeting = bus.recv(128)
        except OSError as error:
            return f"no answer from the bus at {address}: {error}"
    return "" if greeting.startswith(b"OK ") else f"the bus at {address} refuses this user"
