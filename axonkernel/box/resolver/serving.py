"""The resolver of a box: one process, one loop. Started by starting.py; standard library only.

In it run the answers to names (answering.py) and, where the plan says so, the relay of
connections to named destinations (relay.py).
"""

from __future__ import annotations

import contextlib
import os

from axonkernel.box import nft
from axonkernel.box.channel import Channel, ChannelClosed
from axonkernel.box.model import NetPlan
from axonkernel.box.resolver.answering import Answering
from axonkernel.box.resolver.doors import Doors, Lines
from axonkernel.box.resolver.hostconf import HostConf
from axonkernel.box.resolver.listening import Listening
from axonkernel.box.resolver.loop import Loop
from axonkernel.box.resolver.made_up import MadeUp
from axonkernel.box.resolver.sets import Sets
from axonkernel.box.resolver.telling import Tell
from axonkernel.box.resolver.upstream import Upstream
from axonkernel.typed import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from axonkernel.box.resolver.dialer import Dialer

__all__ = ["serve"]


def serve(
    net: NetPlan, channel: Channel, doors: Doors, lines: Lines, dialer: Dialer | None
) -> NoReturn:
    """Answer until the warden is gone.

    Arguments:
        channel: to the warden. It takes ``{"refused": [Refusal, ...], "named": {address:
            name}, "asked": [name, ...], "now": bool}``, and sends the orders ``grant`` and
            ``refuse`` about a name, ``tell`` what there is now, or ``end``.
        dialer: the way to the plan's proxy; None without one.
    """
    nft.renew()
    loop = Loop()
    upstream = Upstream(loop, lines, HostConf(net.resolver))
    tell = Tell(loop, channel)
    made_up = MadeUp() if dialer is not None else None
    answering = Answering(net, upstream, Sets(net), tell, made_up)
    Listening(loop, doors, answering)
    if net.relayed:
        from axonkernel.box.resolver import relaying  # few boxes have it

        relaying.begin(loop, net, doors, answering.granted, tell, made_up, dialer)

    def obey() -> None:
        order, _ = channel.receive()
        match order["op"]:
            case "grant":
                answering.grant(order["host"], order["protocol"], order["ports"])
            case "refuse":
                answering.refuse(order["host"])
            case "tell":
                tell.now(ordered=True)
            case "end":
                tell.now()
                loop.stop()

    loop.add(channel.fileno(), obey)
    with contextlib.suppress(ChannelClosed):
        loop.run()
    os._exit(0)
