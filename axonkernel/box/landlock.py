"""Landlock by ctypes; standard library only."""

from __future__ import annotations

import os
import struct

from axonkernel.box.linux import no_new_privs, syscall

__all__ = ["abi", "close_abstract_sockets"]

_CREATE_RULESET, _RESTRICT_SELF = 444, 446
_VERSION = 1  # flag of create_ruleset: answer the ABI number
_SCOPE_ABSTRACT_UNIX = 1
_SCOPES_SINCE_ABI = 6


def abi() -> int:
    """The Landlock ABI of this kernel, 0 when there is none."""
    try:
        return syscall(_CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def close_abstract_sockets() -> bool:
    """This process and what it starts reach no abstract socket made outside.

    For boxes that keep the host's network namespace, in which the host's abstract sockets
    would be in reach. Returns False where the kernel cannot (Landlock below ABI 6).
    """
    if abi() < _SCOPES_SINCE_ABI:
        return False
    handled_fs, handled_net = 0, 0  # mounting stays possible, as bwrap needs it
    attributes = struct.pack("<QQQ", handled_fs, handled_net, _SCOPE_ABSTRACT_UNIX)
    no_new_privs()
    ruleset = syscall(_CREATE_RULESET, attributes, len(attributes), 0)
    syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    return True
