"""Enter the network namespace of a box from outside, and wall it. Standard library only."""

from __future__ import annotations

import os
import time
from importlib import import_module

from axonkernel.box.hosts_own import own_addresses
from axonkernel.box.linux import (
    CLONE_NEWNET,
    CLONE_NEWUSER,
    owning_user_namespace,
    set_namespace,
)
from axonkernel.box.model import NetPlan
from axonkernel.errors import BoxError

__all__ = ["load_ahead", "ready_tables", "wall_network"]

_MAP_WITHIN_S = 5.0
#: What a warden and its resolver import when it is needed.
_LATER = (
    *("ipaddress", "resource", "shlex", "socket", "subprocess", "termios"),
    *("axonkernel.policy.hosts", "axonkernel.box.direct"),
    *(f"axonkernel.box.resolver.{name}" for name in ("refused", "serving", "relaying")),
)
_READABLE, _PASSABLE = 0o4, 0o5


def ready_tables() -> None:
    """Load the binding, unless the fork server has: bwrap is busy on another processor."""
    from axonkernel.box import nft

    nft.warm_up()


def load_ahead() -> None:
    """Import what is needed later, where it cannot be read any more then: with its user
    namespace root gives up the right to look into the folders of others, such as a home."""
    if os.geteuid() == 0 and not (_stays_readable(__file__) and _stays_readable(os.__file__)):
        for name in _LATER:
            import_module(name)


def _stays_readable(path: str) -> bool:
    path = os.path.realpath(path)
    is_open = _is_open(path, _READABLE)
    while is_open and path != "/":
        path = os.path.dirname(path)
        is_open = _is_open(path, _PASSABLE)
    return is_open


def _is_open(path: str, bits: int) -> bool:
    """By the mode, for an owner or for others; what a group may counts for nothing."""
    found = os.stat(path)
    wanted = bits << 6 if found.st_uid == os.geteuid() else bits
    return found.st_mode & wanted == wanted


def wall_network(init: int, plan: NetPlan) -> None:
    """Join the network of the box of ``init``, by the user namespace that owns it, and load
    its table.

    This process, which has one thread, stays there. Raises BoxError or OSError.
    """
    own = own_addresses() if plan.link == "pasta" else ()
    network = os.open(f"/proc/{init}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    owner = owning_user_namespace(network)
    set_namespace(owner, CLONE_NEWUSER)
    set_namespace(network, CLONE_NEWNET)
    os.close(network)
    os.close(owner)
    _wait_for_uid()
    from axonkernel.box import nft

    nft.load(nft.ruleset(plan, own))


def _wait_for_uid() -> None:
    """Until bwrap has written the uid map: a program started as nobody has no capability."""
    deadline_s = time.monotonic() + _MAP_WITHIN_S
    while not _uid_map():
        if time.monotonic() > deadline_s:
            raise BoxError("table", "bwrap wrote no uid map")
        time.sleep(0.0002)


def _uid_map() -> str:
    with open("/proc/self/uid_map", encoding="ascii") as file:
        return file.read()
