"""The groups of rows, in the table's order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from bench.rows import (
    alone,
    brokered,
    decide,
    engines,
    inside,
    limits,
    memory,
    net,
    shell,
    tool_call,
    warm,
    worker,
)
from bench.session import Session
from bench.table import Row

__all__ = ["GROUPS"]

GROUPS: Mapping[str, Callable[[Session], Iterator[Row]]] = {
    "decide": decide.rows,
    "engines": engines.rows,
    "tool-call": tool_call.rows,
    "warm": warm.rows,
    "alone": alone.rows,
    "worker": worker.rows,
    "burst": alone.burst_rows,
    "limits": limits.rows,
    "keeper": warm.keeper_rows,
    "brokered": brokered.rows,
    "exec": shell.exec_rows,
    "agent": shell.agent_rows,
    "import": shell.import_rows,
    "memory": memory.rows,
    "denied": warm.denied_rows,
    "inside": inside.rows,
    "net": net.rows,
    "net-launch": net.launch_rows,
}
