"""Talk to systemd: pydbus where it is installed, its own programs otherwise.

Standard library only at import. What systemd refuses, or does not answer in
:data:`PATIENCE_S`, is IsolationUnavailable: limits are never approximated.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from axonkernel.box.programs import find, install, run
from axonkernel.errors import IsolationUnavailable

__all__ = ["PATIENCE_S", "Value", "start_transient", "systemctl", "unavailable"]

#: How long systemd may take to answer one call.
PATIENCE_S = 4.0
#: How much longer stopping a unit may take.
_STOPPING_S = 4.0

_NAME, _PATH = "org.freedesktop.systemd1", "/org/freedesktop/systemd1"
_MANAGER, _START = "org.freedesktop.systemd1.Manager", "StartTransientUnit"

#: Where systemd is the init system, by sd_booted(3).
_BOOTED = "/run/systemd/system"

Value = int | str
_TYPES = {bool: "b", int: "t", str: "s"}
_Properties = Mapping[str, Value]


def start_transient(unit: str, properties: _Properties, pids: Sequence[int], *, user: bool) -> None:
    """Make a scope with ``pids`` in it (or a slice, without). Returns before they are moved.

    Arguments:
        user: the user manager, not the system's.

    Raises IsolationUnavailable, in less than 5 s, when systemd is not there or refuses.
    """
    reason: str | None = _absent(user)
    if not reason:
        reason = _over_pydbus(unit, properties, pids, user)
    if reason is None:
        reason = _over_busctl(unit, properties, pids, user)
    if reason:
        raise unavailable(reason, user=user)


def unavailable(reason: str, *, user: bool) -> IsolationUnavailable:
    """The error for a manager that cannot hold limits, with what to do about it."""
    if not os.path.isdir(_BOOTED):
        fix = "run where systemd is the init system"
    elif user:
        who = os.environ.get("USER") or os.geteuid()
        fix = f"loginctl enable-linger {who}, then log in again"
    else:
        fix = f"{install('dbus')}, then systemctl start dbus"
    missing = f"systemd {'user' if user else 'system'} manager"
    return IsolationUnavailable("limits", missing, f"{fix} ({reason})")


def _absent(user: bool) -> str:
    """Why no manager can be reached, told without asking it; "" when one may be there."""
    if not os.path.isdir(_BOOTED):
        return "systemd does not run here"
    address = os.environ.get(f"DBUS_{'SESSION' if user else 'SYSTEM'}_BUS_ADDRESS", "")
    if not address:
        folder = os.environ.get("XDG_RUNTIME_DIR") if user else "/run/dbus"
        if not folder:
            return "XDG_RUNTIME_DIR is not set"
        address = f"unix:path={folder}/{'bus' if user else 'system_bus_socket'}"
    return _silent(address)


def _silent(address: str) -> str:
    """Why the bus at a unix address does not greet; "" when it does.

    The libraries wait for a greeting without end.
    """
    import socket

    pairs = address.removeprefix("unix:").split(";")[0].split(",")
    names = dict(pair.split("=", 1) for pair in pairs if "=" in pair)
    path = names.get("path") or "\0" + names.get("abstract", "")
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


def _typed(properties: _Properties, pids: Sequence[int]) -> Iterator[tuple[str, str, Any]]:
    for name, value in properties.items():
        yield name, _TYPES[type(value)], value
    if pids:
        yield "PIDs", "au", list(pids)


def _over_pydbus(unit: str, properties: _Properties, pids: Sequence[int], user: bool) -> str | None:
    """Start over the binding: "" when it worked, else why not; None when it is not here."""
    try:
        import pydbus
        from gi.repository import GLib
    except (ImportError, ValueError, AttributeError):
        return None
    given = [(name, pydbus.Variant(kind, value)) for name, kind, value in _typed(properties, pids)]
    body = pydbus.Variant("(ssa(sv)a(sa(sv)))", (unit, "fail", given, []))
    try:
        # No proxy object: that would ask for the manager's long description first.
        bus = pydbus.SessionBus() if user else pydbus.SystemBus()
        milliseconds = int(PATIENCE_S * 1000)
        bus.con.call_sync(_NAME, _PATH, _MANAGER, _START, body, None, 0, milliseconds, None)
    except GLib.Error as error:
        return str(error.message)
    return ""


def _over_busctl(unit: str, properties: _Properties, pids: Sequence[int], user: bool) -> str:
    """Start over the program: "" when it worked, else why not."""
    program = find("busctl")
    if program is None:
        return "neither pydbus nor busctl is installed"
    given = list(_typed(properties, pids))
    words = [unit, "fail", str(len(given))]
    for name, kind, value in given:
        values = [len(value), *value] if isinstance(value, list) else [value]
        words += [name, kind, *(str(value) for value in values)]
    argv = [program, "--user" if user else "--system", f"--timeout={PATIENCE_S:g}", "--quiet"]
    call = ["call", _NAME, _PATH, _MANAGER, _START, "ssa(sv)a(sa(sv))"]
    try:
        done = run([*argv, *call, *words, "0"], timeout_s=PATIENCE_S)
    except TimeoutError as error:
        return str(error)
    return "" if done.code == 0 else done.err.strip() or f"busctl ended with {done.code}"


def systemctl(user: bool, *words: str) -> str:
    """Run ``systemctl`` and return what it wrote. Raises IsolationUnavailable without it."""
    program = find("systemctl")
    if program is None:
        raise unavailable("systemctl is not installed", user=user)
    argv = [program, "--user" if user else "--system", *words]
    return run(argv, timeout_s=PATIENCE_S + _STOPPING_S).out
