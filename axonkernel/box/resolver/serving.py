"""The resolver of a box: one process, one loop. Started by starting.py; standard library only.

In it run the answers to names (answering.py) and, where the plan says so, the relay of
connections to named destinations (relay.py).
"""

from __future__ import annotations

import os
from typing import NoReturn

from axonkernel.box import nft
from axonkernel.box.channel import Channel, ChannelClosed
from axonkernel.box.model import NetPlan
from axonkernel.box.resolver.doors import Doors, Lines
from axonkernel.box.resolver.loop import Loop

__all__ = ["serve"]


def serve(net: NetPlan, channel: Channel, doors: Doors, lines: Lines) -> NoReturn:
    """Answer until the warden is gone.

    Arguments:
        channel: to the warden; it takes ``{"refused": [Refusal, ...]}``, and sends orders to
            grant a destination (``{"host": ..., "protocol": ..., "port": ...}``).
    """
    nft.renew()
    loop = Loop()

    def obey() -> None:
        try:
            channel.receive()
        except ChannelClosed:
            os._exit(0)

    loop.add(channel.fileno(), obey)
    loop.run()
    os._exit(0)
