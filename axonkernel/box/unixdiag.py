"""Which unix sockets a network namespace has bound to a file (sock_diag(7)).

Standard library only.
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Iterator

__all__ = ["Listing"]

_NETLINK_SOCK_DIAG = 4
_BY_FAMILY = 20
_REQUEST_DUMP = 0x1 | 0x300
_DONE, _ERROR = 3, 2
_ALL_STATES = 0xFFFFFFFF
_SHOW_VFS = 2
_ATTR_VFS = 1

_HEADER = struct.Struct("=IHHII")
_ASK = struct.Struct("=BBHIIIII")
_SOCKET = struct.Struct("=BBBBIII")
_ATTR = struct.Struct("=HH")
_VFS = struct.Struct("=II")


class Listing:
    """The sockets of the namespace in which this was made, whatever its maker joins later."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG)

    def has(self, device: int, inode: int) -> bool:
        """Whether a socket is bound to the file with this device and inode.

        Arguments:
            device: as ``st_dev`` has it.
        """
        wanted = (os.major(device) << 20 | os.minor(device), inode & 0xFFFFFFFF)
        return wanted in set(self._bound())

    def _bound(self) -> Iterator[tuple[int, int]]:
        ask = _ASK.pack(socket.AF_UNIX, 0, 0, _ALL_STATES, 0, _SHOW_VFS, 0, 0)
        size = _HEADER.size + len(ask)
        self._socket.send(_HEADER.pack(size, _BY_FAMILY, _REQUEST_DUMP, 1, 0) + ask)
        while True:
            data = self._socket.recv(1 << 16)
            at = 0
            while at < len(data):
                length, kind, *_ = _HEADER.unpack_from(data, at)
                if kind in (_DONE, _ERROR):
                    return
                yield from _files(data[at + _HEADER.size + _SOCKET.size : at + length])
                at += (length + 3) & ~3


def _files(attributes: bytes) -> Iterator[tuple[int, int]]:
    at = 0
    while at + _ATTR.size <= len(attributes):
        length, kind = _ATTR.unpack_from(attributes, at)
        if kind == _ATTR_VFS:
            inode, device = _VFS.unpack_from(attributes, at + _ATTR.size)
            yield device, inode
        at += max((length + 3) & ~3, _ATTR.size)
