"""The addresses of the host itself, in the network namespace this process is in.

pasta connects on behalf of the box by sockets of the host, for which the host's own addresses
are near: no firewall stands before what listens there. Standard library only.
"""

from __future__ import annotations

from collections.abc import Iterator

__all__ = ["own_addresses", "own_ipv4", "own_ipv6"]


def own_addresses() -> tuple[str, ...]:
    """Addresses and networks that lead to the host, but for loopback. Raises OSError."""
    with open("/proc/self/net/fib_trie", encoding="ascii") as file:
        found = {*own_ipv4(file)}
    try:
        with open("/proc/self/net/if_inet6", encoding="ascii") as file:
            found |= {*own_ipv6(file)}
    except FileNotFoundError:  # a kernel without IPv6
        pass
    return tuple(sorted(found))


def own_ipv4(lines: Iterator[str] | list[str]) -> Iterator[str]:
    """The local routes of ``/proc/net/fib_trie``: a line names an address, those below it the
    routes there."""
    address = ""
    for line in lines:
        words = line.split()
        if words[:1] == ["|--"]:
            address = words[1]
        elif words[1:] == ["host", "LOCAL"] and not address.startswith("127."):
            yield f"{address}{words[0]}"


def own_ipv6(lines: Iterator[str] | list[str]) -> Iterator[str]:
    """The addresses of ``/proc/net/if_inet6``, which begin its lines without colons."""
    for line in lines:
        digits = line[:32]
        if int(digits, 16) != 1:
            yield ":".join(digits[at : at + 4] for at in range(0, 32, 4)) + "/128"
