"""The fork server: a small process that forks wardens ahead of need.

Started by ``launch.Launcher`` with nothing but the standard library, so that a fork costs
one millisecond whatever the supervisor holds in memory; and how many wait goes with how many
were asked for at once (spares.py).
"""

from __future__ import annotations

import contextlib
import gc
import os
import select
import signal
import socket
from importlib import import_module
from typing import NoReturn

from axonkernel.box import prelude
from axonkernel.box.channel import Channel, ChannelClosed, pair
from axonkernel.box.exec_lane import close_all_but
from axonkernel.box.spares import Spares

__all__ = ["main"]

#: Nobody who waits for a box asks for it later than this.
_SOON_S = 0.1
#: Wardens that wait, at most.
_MOST_SPARES = 16


def main(fd: int) -> None:
    """Serve requests for wardens on descriptor ``fd`` until its other end closes."""
    requests = Channel(socket.socket(fileno=fd))
    os.set_inheritable(fd, False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # wardens are reaped by the kernel
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is for the supervisor to judge
    # The first box is often wanted at once: one spare gets ready by itself, and nothing else
    # takes a processor from it before there is time.
    spares = Spares(_fork_spare, most=_MOST_SPARES, ready=(_fork_spare(),))
    is_warm = False
    with contextlib.suppress(ChannelClosed):
        while True:
            if not is_warm and not _is_asked(requests, _SOON_S):
                is_warm = _warm_up()
            spares.await_request(requests)
            order, descriptors = requests.receive()
            _hand_over(spares, descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            if order["link"] == "veth":
                _warm_up_veth()


def _is_asked(requests: Channel, within_s: float) -> bool:
    poll = select.poll()
    poll.register(requests, select.POLLIN)
    return bool(poll.poll(within_s * 1000))


def _hand_over(spares: Spares[Channel], descriptors: tuple[int, ...]) -> None:
    """Give a request to a spare; one that was killed while it waited is no use."""
    for _ in range(_MOST_SPARES + 1):
        spare = spares.take()
        try:
            spare.send({}, descriptors)
            return
        except ChannelClosed:
            continue
        finally:
            spare.close()


def _warm_up() -> bool:
    """Pay once for what each warden would pay; always true."""
    # The whole of a warden, and what boxes with a keeper or a link need.
    for name in ("warden", "resolver.refused", "resolver.serving", "hand", "steward", "link"):
        import_module(f"axonkernel.box.{name}")
    with contextlib.suppress(ImportError, OSError):
        import nftables

        nftables.Nftables()
    gc.collect()
    gc.freeze()
    return True


def _warm_up_veth() -> None:
    """Where one box has a veth link the next one has it too, and need not import its library."""
    from axonkernel.box import veth

    with contextlib.suppress(ImportError):
        veth.warm_up()
    gc.freeze()


def _fork_spare() -> Channel:
    ours, theirs = pair()
    if os.fork() == 0:
        close_all_but(theirs.fileno())
        _wait(theirs)
    theirs.close()
    return ours


def _wait(orders: Channel) -> NoReturn:
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    try:
        prelude.get_ready(orders)
        _, (control,) = orders.receive()
    except (ChannelClosed, ValueError):
        os._exit(0)
    orders.close()
    prelude.serve(Channel(socket.socket(fileno=control)))
