"""Sockets of the relay: where a redirected connection was going, and the one that goes on.

Standard library only.
"""

from __future__ import annotations

import contextlib
import resource
import socket
import struct

from axonkernel.box.redirected import MARK

__all__ = ["abort", "begin", "original", "raise_descriptor_limit"]

_ORIGINAL = 80  # SO_ORIGINAL_DST and IP6T_SO_ORIGINAL_DST: linux/netfilter_ipv4.h, _ipv6
_LINGER_NOT = struct.pack("ii", 1, 0)


def original(client: socket.socket) -> tuple[str, int]:
    """The address and port that a redirected connection was made to. Raises OSError."""
    if client.family == socket.AF_INET:
        raw = client.getsockopt(socket.IPPROTO_IP, _ORIGINAL, 16)
        address = socket.inet_ntop(socket.AF_INET, raw[4:8])
    else:
        raw = client.getsockopt(socket.IPPROTO_IPV6, _ORIGINAL, 28)
        address = socket.inet_ntop(socket.AF_INET6, raw[8:24])
    return address, int.from_bytes(raw[2:4], "big")


def begin(address: str, port: int) -> socket.socket:
    """A connection that is being made, by a socket that the table lets through. OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    server = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
    try:
        # The agent cannot set it: that takes a capability in the namespace's owner.
        server.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        with contextlib.suppress(BlockingIOError):
            server.connect((address, port))
    except OSError:
        server.close()
        raise
    return server


def abort(sock: socket.socket) -> None:
    """Close with a reset, so that the other side does not take it for an end."""
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
    sock.close()


def raise_descriptor_limit() -> int:
    """Let this process open as many files as it may; gives how many."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
