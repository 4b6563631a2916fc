"""What the agent is told of the place it is in, and what is heard of it. Values only."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Heard", "Scene"]


class Scene(NamedTuple):
    """Where everything is that the agent will try to reach.

    Arguments:
        project: the folder the agent works in.
        home: the home of whoever started it.
        outside: a folder that is not granted.
        tcp, udp: ports on the host's loopback where somebody listens.
        abstract: the name of an abstract unix socket of the host.
        victim: the pid of a process of the host.
        programs: programs that the host has and the policy does not grant.
        skip: keys of attempts that cannot be made on this machine.
    """

    project: str
    home: str
    outside: str
    tcp: int
    udp: int
    abstract: str
    victim: int
    programs: list[str]
    skip: list[str]


class Heard(NamedTuple):
    """What an attempt is said to have come to.

    Arguments:
        key: the attempt's.
        ok: whether it says it got through.
        said: the denial's code, the error's name, or what was done.
        loot: everything it got hold of.
        decision: the record of the denial, when the mediator answered; "" otherwise.
    """

    key: str
    ok: bool
    said: str
    loot: str = ""
    decision: str = ""
