"""Hand out a box's private folders, so that a program run for it elsewhere sees them.

A brokered program runs in a box of its own. What the agent put into /tmp or its home must be
there too: a process in the agent's mount namespace, which nothing in that box sees or reaches,
makes a copy of each such mount when it is asked for one. Standard library only.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable

from axonkernel.box.channel import Channel, ChannelClosed, pair
from axonkernel.box.hand import become_mapped
from axonkernel.box.keeper import fork_apart
from axonkernel.box.linux import (
    CLONE_NEWNS,
    CLONE_NEWUSER,
    die_with_parent,
    look_up,
    owning_user_namespace,
    set_namespace,
)
from axonkernel.box.model import BoxPlan
from axonkernel.box.mounts import MOUNT_NOEXEC, clone_tree, mount_setattr
from axonkernel.errors import BoxError
from axonkernel.typed import NoReturn

__all__ = ["Lender", "borrow", "lendable", "start"]

#: Descriptors of one message; /tmp, /var/tmp and the home are three.
_MOST = 8


def lendable(plan: BoxPlan) -> tuple[str, ...]:
    """The private folders of a box that another one may have as well.

    Not /run, where its broker listens, nor a folder that was made to be closed.
    """
    return tuple(
        mount.dest
        for mount in plan.mounts
        if mount.kind == "tmpfs" and mount.mode in (0o700, 0o1777)
    )[:_MOST]


def borrow(lender: Channel, folders: tuple[str, ...]) -> tuple[int, ...]:
    """A descriptor of a mount of each folder, to be put into one other box.

    Raises BoxError when the box that lends is no more.
    """
    try:
        lender.send({"folders": folders})
        answer, descriptors = lender.receive()
    except ChannelClosed as error:
        raise BoxError("mounts", "the box that asked has ended") from error
    if "fault" in answer or len(descriptors) != len(folders):
        for fd in descriptors:
            os.close(fd)
        raise BoxError("mounts", f"the folders of the box that asked: {answer.get('fault')}")
    return descriptors


class Lender:
    """The warden's end of the process that lends."""

    def __init__(self, control: Channel) -> None:
        self._control = control

    def enter(self, pid: int) -> None:
        """Let it into the box of process ``pid``. Raises BoxError."""
        mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
        try:
            self._control.send({}, (mounts,))
        except ChannelClosed as error:
            raise BoxError("mounts", "what lends the box's folders ended") from error
        finally:
            os.close(mounts)


def start(customers: int) -> Lender:
    """Start the process; it answers on the descriptor ``customers``, which is closed here."""
    import socket

    ours, theirs = pair()
    asked = Channel(socket.socket(fileno=customers))
    fork_apart(lambda: _serve(theirs, asked), theirs, asked, dies=True)
    theirs.close()
    asked.close()
    return Lender(ours)


def _serve(warden: Channel, customers: Channel) -> NoReturn:
    try:
        _, (mounts,) = warden.receive()
        _enter(mounts)
        while True:
            order, _ = customers.receive()
            _answer(customers, order["folders"])
    except ChannelClosed:
        os._exit(0)


def _enter(mounts: int) -> None:
    owner = owning_user_namespace(mounts)
    if os.fstat(owner).st_ino != os.stat("/proc/self/ns/user").st_ino:
        set_namespace(owner, CLONE_NEWUSER)
    become_mapped()
    set_namespace(mounts, CLONE_NEWNS)
    die_with_parent(signal.SIGKILL)  # a change of user has undone the first


def _answer(customers: Channel, folders: Iterable[str]) -> None:
    lent: list[int] = []
    try:
        lent += map(_copy, folders)
        customers.send({}, tuple(lent))
    except OSError as error:
        customers.send({"fault": str(error)})
    finally:
        for fd in lent:
            os.close(fd)


def _copy(folder: str) -> int:
    """With what is mounted below, which cannot be had without; nothing starts from it."""
    place = look_up(folder)
    try:
        fd = clone_tree(place, recursive=True)
        mount_setattr(fd, MOUNT_NOEXEC, recursive=True)
        return fd
    finally:
        os.close(place)
