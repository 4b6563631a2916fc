"""Run by the probe in a process of its own: a new user and network namespace to try things in.

Obeys lines on standard input and answers each with a line of JSON:

``ready``  the namespaces are made
``links``  the names of the interfaces
``table``  load the table of a box that may reach nothing, and send it a packet
``veth``   make a veth link to a box, with the host's tables
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import socket
import struct
import sys
from typing import Any

from axonkernel.box import nft
from axonkernel.box.linux import CLONE_NEWNET, CLONE_NEWUSER
from axonkernel.box.model import NetPlan
from axonkernel.errors import BoxError, IsolationUnavailable

_MODULES = "nf_tables nft_ct nft_reject_inet"
_SIOCSIFFLAGS, _IFF_UP = 0x8914, 0x1


def _enter() -> None:
    uid, gid = os.getuid(), os.getgid()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare(user, net)")
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(text)


def _loopback_up() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))


def _send() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.sendto(b"x", ("127.0.0.1", 9))


def _table() -> dict[str, str]:
    """The packet goes to loopback, the one place there is; so its rule is left out."""
    _loopback_up()
    _send()
    value = nft.ruleset(NetPlan())
    value["nftables"] = [part for part in value["nftables"] if '"lo"' not in json.dumps(part)]
    try:
        nft.load(value)
        _send()
    except PermissionError:
        noted = ("127.0.0.1", "udp", 9, 1) in nft.read_refused()
        error = "" if noted else "a refused packet was not noted"
        return {"error": error, "fix": "", "by": "binding" if nft._binding() else "nft"}
    except IsolationUnavailable as unavailable:
        return {"error": "not installed", "fix": unavailable.fix, "by": ""}
    except BoxError as refused:
        return {"error": refused.message, "fix": f"sudo modprobe -a {_MODULES}", "by": ""}
    return {"error": "a packet went past the table", "fix": "", "by": ""}


def _veth() -> dict[str, str]:
    """As the host would, with the ends of one link in one namespace."""
    from axonkernel.box import veth

    try:
        veth.attempt()
    except IsolationUnavailable as unavailable:
        return {"error": f"{unavailable.missing} is not installed", "fix": unavailable.fix}
    except (BoxError, OSError) as refused:
        return {"error": str(refused), "fix": ""}
    return {"error": "", "fix": ""}


def _answer(order: str) -> dict[str, Any]:
    match order:
        case "table":
            return _table()
        case "veth":
            return _veth()
        case "links":
            return {"names": " ".join(name for _, name in socket.if_nameindex())}
        case _:
            return {}


def main() -> None:
    """Obey until standard input ends."""
    _enter()
    for line in sys.stdin:
        print(json.dumps(_answer(line.strip())), flush=True)


if __name__ == "__main__":
    main()
