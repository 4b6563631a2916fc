"""The fork server: a small process that forks wardens ahead of need.

Started by ``launch.Launcher`` with nothing but the standard library, so that a fork costs
one millisecond whatever the supervisor holds in memory.
"""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import socket
from importlib import import_module
from typing import NoReturn

from axonkernel.box import prelude
from axonkernel.box.channel import Channel, ChannelClosed, pair

__all__ = ["main"]


def main(fd: int) -> None:
    """Serve requests for wardens on descriptor ``fd`` until its other end closes."""
    requests = Channel(socket.socket(fileno=fd))
    os.set_inheritable(fd, False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # wardens are reaped by the kernel
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is for the supervisor to judge
    _warm_up()
    spare = _fork_spare(requests)
    with contextlib.suppress(ChannelClosed):
        while True:
            order, descriptors = requests.receive()
            spare.send({}, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            spare.close()
            if order["link"] == "veth":
                _warm_up_veth()
            spare = _fork_spare(requests)


def _warm_up() -> None:
    """Pay once, before any fork, for what each warden would pay."""
    # The whole of a warden, and what boxes with a keeper or a link need.
    for name in ("warden", "resolver.refused", "hand", "steward", "link"):
        import_module(f"axonkernel.box.{name}")
    with contextlib.suppress(ImportError, OSError):
        import nftables

        nftables.Nftables()
    gc.collect()
    gc.freeze()


def _warm_up_veth() -> None:
    """Where one box has a veth link the next one has it too, and need not import its library."""
    from axonkernel.box import veth

    with contextlib.suppress(ImportError):
        veth.warm_up()
    gc.freeze()


def _fork_spare(requests: Channel) -> Channel:
    ours, theirs = pair()
    if os.fork() == 0:
        requests.close()
        ours.close()
        _wait(theirs)
    theirs.close()
    return ours


def _wait(orders: Channel) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        _, (control,) = orders.receive()
    except ChannelClosed:
        os._exit(0)
    orders.close()
    prelude.serve(Channel(socket.socket(fileno=control)))
