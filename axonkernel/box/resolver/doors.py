"""The sockets of a box's resolver, made by the warden and kept by it while resolvers come and go.

Questions come in by the doors, which listen inside the box's network namespace; answers are
asked for by the lines, which were made before that was entered and so stay on the host's
network. Standard library only.
"""

from __future__ import annotations

# Not socket, which a launch is waited for longer with; see channel.py.
import _socket
import contextlib

from axonkernel.typed import NamedTuple

__all__ = ["ADDRESS", "Doors", "Lines", "lines", "open_doors"]

#: Where /etc/resolv.conf in a box points. Ports below 1024 cannot be taken in the box.
ADDRESS = ("127.0.0.53", 53)
#: One question waits on each at a time; more wait for one of them.
_DATAGRAM_LINES, _STREAM_LINES = 48, 8
_BACKLOG = 128
_QUEUE_BYTES = 4 * 1024 * 1024
_FREEBIND = 15  # IP_FREEBIND of linux/in.h: bwrap may not have raised lo yet
_RCVBUFFORCE = 33


class Doors(NamedTuple):
    """Where the box's questions come in."""

    datagrams: _socket.socket
    streams: _socket.socket


class Lines(NamedTuple):
    """What the host's resolvers are asked by, of both families as far as the host has them."""

    datagrams: tuple[_socket.socket, ...] = ()
    streams: tuple[_socket.socket, ...] = ()


def open_doors() -> Doors:
    """Listen in the network namespace of this process. Raises OSError."""
    found = []
    for kind in (_socket.SOCK_DGRAM, _socket.SOCK_STREAM):
        door = _socket.socket(_socket.AF_INET, kind | _socket.SOCK_NONBLOCK)
        door.setsockopt(_socket.IPPROTO_IP, _FREEBIND, 1)
        door.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
        door.bind(ADDRESS)
        found.append(door)
    with contextlib.suppress(OSError):  # needs a capability in the host's own namespace
        found[0].setsockopt(_socket.SOL_SOCKET, _RCVBUFFORCE, _QUEUE_BYTES)
    found[0].setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVBUF, _QUEUE_BYTES)
    found[1].listen(_BACKLOG)
    return Doors(*found)


def lines() -> Lines:
    """Make them in the network namespace of this process."""
    return Lines(
        _some(_socket.SOCK_DGRAM, _DATAGRAM_LINES), _some(_socket.SOCK_STREAM, _STREAM_LINES)
    )


def _some(kind: int, count: int) -> tuple[_socket.socket, ...]:
    found = []
    for family in (_socket.AF_INET, _socket.AF_INET6):
        with contextlib.suppress(OSError):  # a kernel without IPv6
            found += [
                _socket.socket(family, kind | _socket.SOCK_NONBLOCK | _socket.SOCK_CLOEXEC)
                for _ in range(count)
            ]
    return tuple(found)
