"""The append-only record of every decision, escalation and box.

:class:`AuditSink` is all the kernel needs to know; a session inside a box stands in for the
file with its own.
"""

from __future__ import annotations

from axonkernel.audit.log import AuditLog, default_path
from axonkernel.audit.redact import Redactor
from axonkernel.typed import Any, Protocol

__all__ = [
    "AuditLog",
    "AuditSink",
    "Redactor",
    "default_path",
]


class AuditSink(Protocol):
    """Where records go."""

    def record(self, kind: str, /, **fields: Any) -> str:
        """Store one record and return its id; when this returns, the record is kept.

        Raises AuditError when it cannot be stored: what it is about must then not happen.
        """
