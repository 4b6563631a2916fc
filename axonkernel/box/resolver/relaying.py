"""The relay of a box in the loop of its resolver. Standard library only."""

from __future__ import annotations

import socket

from axonkernel.box.model import NetPlan
from axonkernel.box.resolver.connection import Rules, Through
from axonkernel.box.resolver.dialer import Dialer
from axonkernel.box.resolver.doors import Doors
from axonkernel.box.resolver.granted import Granted
from axonkernel.box.resolver.known import Known
from axonkernel.box.resolver.loop import Loop
from axonkernel.box.resolver.made_up import MadeUp
from axonkernel.box.resolver.proxy import parse_proxy
from axonkernel.box.resolver.relay import Relay
from axonkernel.box.resolver.telling import Tell

__all__ = ["begin"]

_LOOK_S = 1.0


def begin(
    loop: Loop,
    net: NetPlan,
    doors: Doors,
    granted: Granted,
    tell: Tell,
    made_up: MadeUp | None,
    dialer: Dialer | None,
) -> None:
    """Take connections from now on.

    Arguments:
        granted: the names that are granted, also while the box runs.
        made_up, dialer: of a plan with a proxy.
    """

    def is_granted(name: str, port: int) -> bool:
        return any(
            span.protocol == "tcp" and span.low <= port <= span.high for span in granted.spans(name)
        )

    def refused(kind: str, address: str, port: int, name: str) -> None:
        tell.refused(name, address, kind, port)

    through = None
    if made_up is not None and dialer is not None:
        through = Through(made_up.name, parse_proxy(net.proxy).credentials, dialer)
    listeners = [socket.socket(fileno=door.detach()) for door in doors.relay]
    known = Known()
    tell.on_answer = known.note
    relay = Relay(Rules(net.checked, is_granted, through, known.addresses), refused, listeners)
    loop.add(relay.fileno(), relay.serve)
    loop.every(_LOOK_S, relay.expire)
