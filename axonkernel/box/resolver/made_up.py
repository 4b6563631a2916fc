"""Addresses made up for names that only a proxy can resolve (pure).

They are of the box's own loopback, so that they need neither a link nor a route, and lead to
the relay and to nothing else: the table redirects each for the ports its name is granted for.
"""

from __future__ import annotations

import os
from ipaddress import IPv4Address, IPv4Network, ip_address

__all__ = ["MADE_UP", "MOST", "MadeUp", "is_made_up"]

#: Where nothing listens, and where no granted address can be.
MADE_UP = IPv4Network("127.128.0.0/9")
#: Names with an address.
MOST = 1 << 14


def is_made_up(address: str) -> bool:
    """Whether an address is one of those. Raises ValueError for what is no address."""
    return ip_address(address) in MADE_UP


class MadeUp:
    """One address for each name, for as long as this process lives.

    They begin somewhere else each time: an address that a program still knows from a resolver
    before this one leads nowhere, not to another name.
    """

    def __init__(self) -> None:
        start = int.from_bytes(os.urandom(8)) % (MADE_UP.num_addresses - MOST)
        self._next = int(MADE_UP.network_address) + start
        self._addresses: dict[str, str] = {}
        self._names: dict[str, str] = {}

    def address(self, name: str) -> str | None:
        """The address of a name; None when too many have one."""
        if name not in self._addresses and len(self._addresses) < MOST:
            address = str(IPv4Address(self._next))
            self._next += 1
            self._addresses[name] = address
            self._names[address] = name
        return self._addresses.get(name)

    def name(self, address: str) -> str:
        """The name that an address was made up for; "" for none."""
        return self._names.get(address, "")
