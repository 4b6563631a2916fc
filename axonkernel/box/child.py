"""The first code inside an agent's box: meet the supervisor, and prove where one is.

"Inside" is a message on a descriptor named in the arguments, together with this process's
own state; never an environment variable, which anybody can set. Standard library only.
"""

from __future__ import annotations

import os
import socket
import sys
from typing import Any, NamedTuple

from axonkernel.box.channel import Channel

__all__ = ["Session", "command", "handshake", "session"]

#: Where a box puts the channel (model.Command).
CHANNEL = 3

#: What the warden saw from outside must be seen from inside as well.
_EXPECTED = {"NoNewPrivs": "1", "Seccomp": "2", "CapEff": "0000000000000000"}


class Session(NamedTuple):
    """This process's tie to its supervisor.

    Arguments:
        channel: messages to and from it.
        hello: what it said first: the entry file, the policy, the posture.
    """

    channel: Channel
    hello: dict[str, Any]


_session: Session | None = None


def session() -> Session | None:
    """The session of this process; None outside a box."""
    return _session


def command(module: str) -> tuple[str, ...]:
    """The words that run ``module.main()`` as the first code of an agent's box."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    code = f"import sys; sys.path.append({root!r}); from {module} import main; main()"
    # -P: the working directory is the agent's, and names no module of ours.
    return (sys.executable, "-P", "-c", code)


def handshake() -> Session:
    """Meet the supervisor on the channel. Exits with 125 when this is not a box."""
    global _session
    state = _own_state()
    wrong = [f"{name} is {state.get(name)}" for name, value in _EXPECTED.items()
             if state.get(name) != value]  # fmt: skip
    if wrong:
        sys.stderr.write(f"axonkernel: not inside a box: {', '.join(wrong)}\n")
        os._exit(125)
    os.set_inheritable(CHANNEL, False)
    channel = Channel(socket.socket(fileno=CHANNEL))
    hello, _ = channel.receive()
    _session = Session(channel, hello)
    return _session


def _own_state() -> dict[str, str]:
    with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}
