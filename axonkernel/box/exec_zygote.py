"""The exec zygote: a small process that has lanes ready, in which confined programs start.

It holds no memory of the application, so a fork of it is cheap, and what a program inherits
from it is nothing. Standard library only.
"""

from __future__ import annotations

import gc
import os
import signal
import socket
import time
from contextlib import suppress
from typing import Any

from axonkernel.box import exec_lane
from axonkernel.box.channel import Channel, ChannelClosed
from axonkernel.box.spares import Spares

__all__ = ["main"]

#: Lanes that wait here; two small processes each.
_MOST_SPARES = 8
#: How often folders are looked for at the end, and the seconds in between.
_ROUNDS, _REST_S = 20, 0.05


def main(fd: int) -> None:
    """Serve orders on descriptor ``fd`` until its other end closes.

    ``lane`` is answered with the caller's end of a new lane, ``loose`` or not (exec_lane.serve).
    ``made`` names a private folder of programs, and ``gone`` one that has been removed: those
    that are left go with this process.
    """
    requests = Channel(socket.socket(fileno=fd))
    os.set_inheritable(fd, False)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # lanes are reaped by the kernel
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C is for the supervisor to judge
    gc.collect()
    gc.freeze()
    lanes: Spares[socket.socket] = Spares(_fork_lane, most=_MOST_SPARES)
    folders: set[str] = set()
    with suppress(ChannelClosed):
        while True:
            lanes.await_request(requests)
            order, _ = requests.receive()
            _obey(order, requests, lanes, folders)
    _clear(folders)


def _obey(
    order: dict[str, Any],
    requests: Channel,
    lanes: Spares[socket.socket],
    folders: set[str],
) -> None:
    match order["op"]:
        case "lane":
            with _fork_lane(loose=True) if order["loose"] else lanes.take() as lane:
                requests.send({}, (lane.fileno(),))
        case "made":
            folders.add(order["folder"])
        case "gone":
            folders.discard(order["folder"])


def _fork_lane(*, loose: bool = False) -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    if os.fork() == 0:
        exec_lane.close_all_but(theirs.fileno())
        exec_lane.serve(theirs, loose=loose)
    theirs.close()
    return ours


def _clear(folders: set[str]) -> None:
    """Take the private folders away; a program whose caller was killed ends just now."""
    left = list(folders)
    for _ in range(_ROUNDS):
        left = [folder for folder in left if os.path.isdir(folder)]
        if not left:
            return
        _remove(left)
        time.sleep(_REST_S)


def _remove(folders: list[str]) -> None:
    import shutil  # only where somebody was killed

    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)
