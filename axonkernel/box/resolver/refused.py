"""Read what the table of this process's network namespace refused. Standard library only."""

from __future__ import annotations

import time

from axonkernel.box import nft
from axonkernel.box.model import Refusal

__all__ = ["read"]


def read() -> tuple[Refusal, ...]:
    """What was refused since the last read. Raises BoxError."""
    now_s = round(time.time(), 3)
    return tuple(
        Refusal(address, protocol, port, times=packets, first_s=now_s, last_s=now_s)
        for address, protocol, port, packets in nft.read_refused()
    )
