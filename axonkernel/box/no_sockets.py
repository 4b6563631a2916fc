"""A filter that denies new sockets, as raw BPF: for programs in a box of ours.

libseccomp cannot be had in every box, and the box's own filter holds all else already. What is
connected stays so, and pairs can still be made (asyncio and node need them). Pure.
"""

from __future__ import annotations

import errno
import struct

__all__ = ["filter_bytes"]

#: By machine: what AUDIT_ARCH calls it, and the number of socket(2).
_MACHINES = {
    "x86_64": (0xC000003E, 41),
    "aarch64": (0xC00000B7, 198),
    "riscv64": (0xC00000F3, 198),
}
_LOAD_WORD, _JUMP_IF_EQUAL, _JUMP_IF_AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_RET_ERRNO, _RET_ALLOW = 0x00050000, 0x7FFF0000
_NUMBER_AT, _ARCH_AT, _FAMILY_AT = 0, 4, 16
_UNIX = 1
#: io_uring_setup(2), everywhere: a ring makes sockets without that call.
_RING = 425
#: Numbers of the x32 ABI start here.
_FOREIGN = 0x40000000


def filter_bytes(machine: str, *, unix_only: bool = False) -> bytes:
    """The filter for a machine as uname(2) names it; b"" for one that is not known.

    Foreign ABIs get ENOSYS, socket(2) and rings get EACCES, everything else is let through.

    Arguments:
        unix_only: sockets of other families are let through too.
    """
    if machine not in _MACHINES:
        return b""
    arch, number = _MACHINES[machine]
    # What a socket is of: the low half of the first argument, on machines of this byte order.
    family = ((_LOAD_WORD, 0, 0, _FAMILY_AT), (_JUMP_IF_EQUAL, 0, 1, _UNIX)) if unix_only else ()
    instructions = (
        (_LOAD_WORD, 0, 0, _ARCH_AT),
        (_JUMP_IF_EQUAL, 0, 2, arch),
        (_LOAD_WORD, 0, 0, _NUMBER_AT),
        (_JUMP_IF_AT_LEAST, 0, 1, _FOREIGN),
        (_RETURN, 0, 0, _RET_ERRNO | errno.ENOSYS),
        (_JUMP_IF_EQUAL, 1 + len(family), 0, _RING),
        (_JUMP_IF_EQUAL, 0, 1 + len(family), number),
        *family,
        (_RETURN, 0, 0, _RET_ERRNO | errno.EACCES),
        (_RETURN, 0, 0, _RET_ALLOW),
    )
    return b"".join(struct.pack("=HBBI", *instruction) for instruction in instructions)
