"""Finds what was changed in a log."""

from __future__ import annotations

import hashlib
import os

from attrs import frozen

from axonkernel.audit.log import GENESIS, _hash_of

__all__ = ["AuditFault", "verify"]

#: Length of ``,"hash":"<64 digits>"}`` at the end of each line.
_SEAL_BYTES = 75


@frozen
class AuditFault:
    """One line that is not as it was written.

    Arguments:
        line: its number, from 1.
        message: what is wrong with it.
    """

    line: int
    message: str


def verify(path: str | os.PathLike[str]) -> tuple[AuditFault, ...]:
    """Every fault in the log at ``path``; () when each byte is as it was written.

    Records cut off at the end leave no trace in the file itself.

    Raises:
        OSError: it cannot be read.
    """
    faults: list[AuditFault] = []
    expected = GENESIS
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            head = _hash_of(line[:-1]) if line.endswith(b"\n") else ""
            if not head:
                faults.append(AuditFault(number, "not a whole record"))
                continue
            body = line[:-1][:-_SEAL_BYTES]
            if hashlib.sha256(body).hexdigest() != head:
                faults.append(AuditFault(number, "changed after it was written"))
            elif not body.endswith(f'"prev":"{expected}"'.encode()):
                faults.append(AuditFault(number, "does not follow the record before it"))
            expected = head
    return tuple(faults)
