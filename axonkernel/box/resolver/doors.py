"""The sockets of a box's resolver, made by the warden and kept by it while resolvers come and go.

Questions come in by the doors, which listen inside the box's network namespace; answers are
asked for by the lines, which were made before that was entered and so stay on the host's
network. Standard library only.
"""

from __future__ import annotations

# Not socket, which a launch is waited for longer with; see channel.py.
import _socket
import contextlib

from axonkernel.box.redirected import PORT as RELAY_PORT
from axonkernel.typed import NamedTuple

__all__ = ["Doors", "Lines", "lines", "open_doors"]

#: Where /etc/resolv.conf in a box points, and where the C library asks without one. Ports below
#: 1024 cannot be taken in the box.
_ADDRESSES, _PORT = ("127.0.0.53", "127.0.0.1"), 53
#: One question waits on each at a time; more wait for one of them.
_DATAGRAM_LINES, _STREAM_LINES = 48, 8
_BACKLOG, _RELAY_BACKLOG = 128, 4096
_QUEUE_BYTES = 4 * 1024 * 1024
_FREEBIND = 15  # IP_FREEBIND of linux/in.h: bwrap may not have raised lo yet
_FREEBIND6 = 78  # IPV6_FREEBIND of linux/in6.h
_RCVBUFFORCE = 33


class Doors(NamedTuple):
    """Where the box's questions come in, and its connections to named destinations."""

    datagrams: tuple[_socket.socket, ...]
    streams: tuple[_socket.socket, ...]
    relay: tuple[_socket.socket, ...] = ()

    @property
    def all(self) -> tuple[_socket.socket, ...]:
        """Every one."""
        return (*self.datagrams, *self.streams, *self.relay)


class Lines(NamedTuple):
    """What the host's resolvers are asked by, of both families as far as the host has them."""

    datagrams: tuple[_socket.socket, ...] = ()
    streams: tuple[_socket.socket, ...] = ()


def open_doors(*, relayed: bool) -> Doors:
    """Listen in the network namespace of this process. Raises OSError."""
    return Doors(
        tuple(_datagram_door(address) for address in _ADDRESSES),
        tuple(_stream_door(address) for address in _ADDRESSES),
        _relay_doors() if relayed else (),
    )


def _datagram_door(address: str) -> _socket.socket:
    door = _socket.socket(_socket.AF_INET, _socket.SOCK_DGRAM | _socket.SOCK_NONBLOCK)
    door.setsockopt(_socket.IPPROTO_IP, _FREEBIND, 1)
    door.bind((address, _PORT))
    door.setsockopt(_socket.SOL_SOCKET, _socket.SO_RCVBUF, _QUEUE_BYTES)
    with contextlib.suppress(OSError):  # more than others may: in the host's own namespace only
        door.setsockopt(_socket.SOL_SOCKET, _RCVBUFFORCE, _QUEUE_BYTES)
    return door


def _stream_door(address: str) -> _socket.socket:
    door = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK)
    door.setsockopt(_socket.IPPROTO_IP, _FREEBIND, 1)
    door.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    door.bind((address, _PORT))
    door.listen(_BACKLOG)
    return door


def _relay_doors() -> tuple[_socket.socket, ...]:
    """Where the table sends what it redirects; without IPv6 it is one."""
    found = [_relay_door(_socket.AF_INET, (_socket.IPPROTO_IP, _FREEBIND), "127.0.0.1")]
    with contextlib.suppress(OSError):
        freebind = (_socket.IPPROTO_IPV6, _FREEBIND6)
        found.append(_relay_door(_socket.AF_INET6, freebind, "::1"))
    return tuple(found)


def _relay_door(family: int, freebind: tuple[int, int], address: str) -> _socket.socket:
    door = _socket.socket(family, _socket.SOCK_STREAM | _socket.SOCK_NONBLOCK)
    door.setsockopt(*freebind, 1)
    door.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    door.bind((address, RELAY_PORT))
    door.listen(_RELAY_BACKLOG)
    return door


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
