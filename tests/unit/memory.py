"""An audit log in memory, to look into."""

from __future__ import annotations

from typing import Any

from axonkernel.errors import AuditError


class MemoryAudit:
    """Records kept in a list; ``broken`` makes the next ones fail."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.broken = False

    def record(self, kind: str, /, **fields: Any) -> str:
        if self.broken:
            raise AuditError("full")
        self.records.append({"kind": kind, **fields})
        return f"r{len(self.records)}"

    def kinds(self) -> list[str]:
        return [record["kind"] for record in self.records]

    def decisions(self) -> list[str]:
        return [r["verdict"] for r in self.records if r["kind"] == "decision"]
