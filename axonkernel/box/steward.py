"""The keeper's other half: the process on the host that answers for a box's stubs.

It outlives the warden by a moment: however that ends, the stubs are removed as soon as the box
is dead. Standard library only.
"""

from __future__ import annotations

import os
import select

from axonkernel.box.channel import Channel, ChannelClosed
from axonkernel.box.model import Kept
from axonkernel.box.stubs import Registry, holder
from axonkernel.typed import NoReturn

__all__ = ["serve"]

#: A killed box is gone in milliseconds.
_DEAD_WITHIN_S = 10.0


def serve(warden: Channel, hand: Channel, state: str, names: tuple[Kept, ...]) -> NoReturn:
    """Hold stubs at ``names`` until the warden says so or ends."""
    registry, own = Registry(state), holder()
    box = -1
    try:
        registry.take(own, names)
        warden.send({"held": True})
        box = _serve(warden, hand, registry, own)
    except ChannelClosed:
        pass
    except OSError as error:
        warden.send({"fault": f"stubs: {error}"})
    _give_back(registry, own, box)
    os._exit(0)


def _serve(warden: Channel, hand: Channel, registry: Registry, own: str) -> int:
    """Answer both until the warden has no more to say; the box's pidfd, or -1."""
    box = -1
    poll = select.poll()
    poll.register(warden, select.POLLIN)
    poll.register(hand, select.POLLIN)
    while True:
        ready = {fd for fd, _ in poll.poll()}
        if hand.fileno() in ready:
            try:
                order, _ = hand.receive()
            except ChannelClosed:
                poll.unregister(hand)
                continue
            item = Kept(*order["item"])
            registry.take(own, (item,))
            hand.send({"made": os.path.lexists(item.path)})
        if warden.fileno() in ready:
            try:
                order, _ = warden.receive()
            except ChannelClosed:
                return box
            if order["op"] == "release":
                return box
            box = os.pidfd_open(order["pid"])


def _give_back(registry: Registry, own: str, box: int) -> None:
    if box >= 0:
        poll = select.poll()
        poll.register(box, select.POLLIN)
        poll.poll(_DEAD_WITHIN_S * 1000)
    registry.give_back(own)
