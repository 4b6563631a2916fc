"""Units of systemd's: start them, look at them, stop them. Over either way of bus.py.

Standard library only at import. What systemd refuses, or does not answer in time, is
IsolationUnavailable: limits are never approximated.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from axonkernel.box import bus
from axonkernel.box.bus import Bus, Refused, Typed
from axonkernel.box.programs import install
from axonkernel.errors import IsolationUnavailable

__all__ = ["Manager", "State", "Value", "unavailable"]

#: How long a unit may take to stop: its processes have two seconds before SIGKILL.
_STOPPING_S = 8.0

_PATH = "/org/freedesktop/systemd1"
_INTERFACE = "org.freedesktop.systemd1"

Value = int | str
_TYPES = {bool: "b", int: "t", str: "s"}


class State(NamedTuple):
    """A unit: ``active`` (``active``, ``inactive``, ``failed``, ...; "" when it is gone) and
    ``result`` (``success``, ``timeout``, ``oom-kill``, ...)."""

    active: str = ""
    result: str = ""

    @property
    def ended(self) -> bool:
        """Whether nothing of it runs."""
        return self.active in ("", "inactive", "failed")


class Manager:
    """The system's manager, or the user's.

    Arguments:
        user: which; None for the system's when this is root.
        brief: see :func:`axonkernel.box.bus.connect`.
        over: the way to it; the best there is when None.

    Raises IsolationUnavailable, in about 5 s at the latest, when there is none.
    """

    def __init__(
        self, *, user: bool | None = None, brief: bool = False, over: Bus | None = None
    ) -> None:
        self.user = os.geteuid() != 0 if user is None else user
        try:
            self._bus = bus.connect(self.user, brief=brief) if over is None else over
        except Refused as refused:
            raise unavailable(str(refused), user=self.user) from None

    def start(self, unit: str, properties: Mapping[str, Value], pids: Sequence[int]) -> None:
        """Make a scope with ``pids`` in it (or a slice, without). Returns before they are
        moved. Raises IsolationUnavailable when systemd refuses."""
        given = [(name, Typed(_TYPES[type(each)], each)) for name, each in properties.items()]
        if pids:
            given.append(("PIDs", Typed("au", list(pids))))
        try:
            self._manage("StartTransientUnit", "ssa(sv)a(sa(sv))", unit, "fail", given, [])
        except Refused as refused:
            raise unavailable(str(refused), user=self.user) from None

    def state(self, unit: str) -> State:
        """How a unit is now. Raises IsolationUnavailable when systemd does not answer."""
        try:
            if self._property(unit, "Unit", "LoadState") != "loaded":
                return State()
            kind = unit.rpartition(".")[2].capitalize()
            result = self._property(unit, kind, "Result") if kind == "Scope" else ""
            return State(self._property(unit, "Unit", "ActiveState"), result)
        except Refused as refused:
            raise unavailable(str(refused), user=self.user) from None

    def ended(self, unit: str, timeout_s: float = _STOPPING_S) -> State:
        """Wait until nothing of a unit runs; its state then, or after ``timeout_s``."""
        deadline_s = time.monotonic() + timeout_s
        while not (state := self.state(unit)).ended and time.monotonic() < deadline_s:
            time.sleep(0.01)
        return state

    def stop(self, unit: str) -> None:
        """End a unit with every process in it, and forget it. Does nothing when it is gone.

        Raises IsolationUnavailable when it goes on.
        """
        try:
            self._manage("StopUnit", "ss", unit, "replace")
        except Refused as refused:
            if not self.state(unit).ended:
                raise unavailable(str(refused), user=self.user) from None
        if not self.ended(unit).ended:
            raise unavailable(f"{unit} does not stop", user=self.user)
        self.forget(unit)

    def forget(self, unit: str) -> None:
        """Let systemd drop a failed unit."""
        try:
            self._manage("ResetFailedUnit", "s", unit)
        except Refused:
            return  # it is gone already

    def named(self, pattern: str) -> tuple[str, ...]:
        """The units whose names match a glob. Raises IsolationUnavailable."""
        try:
            found = self._manage("ListUnitsByPatterns", "asas", [], [pattern])
        except Refused as refused:
            raise unavailable(str(refused), user=self.user) from None
        return tuple(unit[0] for unit in found)

    def _manage(self, method: str, signature: str, *values: Any) -> Any:
        return self._bus.call(_PATH, f"{_INTERFACE}.Manager", method, signature, *values)

    def _property(self, unit: str, kind: str, name: str) -> str:
        interface = "org.freedesktop.DBus.Properties"
        path = f"{_PATH}/unit/{_label(unit)}"
        value = self._bus.call(path, interface, "Get", "ss", f"{_INTERFACE}.{kind}", name)
        return str(value)


def _label(unit: str) -> str:
    """A unit's name in a path of D-Bus, where only letters and digits are themselves."""
    plain = [each.isascii() and each.isalnum() for each in unit]
    plain[0] = plain[0] and not unit[0].isdigit()
    return "".join(
        each if itself else "".join(f"_{byte:02x}" for byte in each.encode())
        for each, itself in zip(unit, plain, strict=True)
    )


def unavailable(reason: str, *, user: bool) -> IsolationUnavailable:
    """The error for a manager that cannot hold limits, with what to do about it."""
    if not os.path.isdir(bus.BOOTED):
        fix = "run where systemd is the init system, or in a cgroup v2 delegated to this user"
    elif user:
        who = os.environ.get("USER") or os.geteuid()
        fix = f"loginctl enable-linger {who}, then log in again"
    else:
        fix = f"{install('dbus')}, then systemctl start dbus"
    missing = f"systemd {'user' if user else 'system'} manager"
    return IsolationUnavailable("limits", missing, f"{fix} ({reason})")
