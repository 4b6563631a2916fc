"""The blocks that grant nothing: limits, budget, escalation and box."""

from __future__ import annotations

from typing import Any

from axonkernel.policy.faults import Place
from axonkernel.policy.fields import Block, Field
from axonkernel.policy.kinds import Kind, boolean, choice, count, listed, money, text, unit
from axonkernel.policy.model import BoxPolicy, Budget, EscalationPolicy, Limits
from axonkernel.policy.units import parse_cpu, parse_duration, parse_size

__all__ = ["box", "budget", "escalation", "limits", "size", "wall"]

size = unit(
    parse_size,
    {
        "anyOf": [
            {"type": "integer", "exclusiveMinimum": 0},
            {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?([KMGT]?(iB|i)?|B)$"},
        ]
    },
)

wall = unit(
    parse_duration,
    {
        "anyOf": [
            {"type": "number", "exclusiveMinimum": 0},
            {"type": "string", "pattern": r"^([0-9.]+(d|h|m|s|ms)?)+$"},
        ]
    },
    lambda seconds: int(seconds) if seconds == int(seconds) else seconds,
)

cpu = unit(
    parse_cpu,
    {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?%$"},
    lambda millicores: f"{millicores // 10}.{millicores % 10}%".replace(".0%", "%"),
)


limits = Block(
    Limits,
    (
        Field("memory", size, "Memory of the whole process tree.", "memory_bytes"),
        Field("cpu", cpu, "CPU time; 100% is one core.", "cpu_millicores"),
        Field("wall", wall, "Running time; a plain number is seconds.", "wall_s"),
        Field("pids", count(1), "Processes and threads."),
        Field("disk", size, "What a box's private folders hold together.", "disk_bytes"),
        Field("output", size, "Bytes one call may return; more ends it.", "output_bytes"),
    ),
    "Caps on one run.",
)

budget = Block(
    Budget,
    (
        Field("turns", count(0), "Rounds of the agent loop."),
        Field("tokens", count(0, 2**53), "Tokens of the model."),
        Field("usd", money, "US dollars."),
        Field("tool_calls", count(0), "Tool calls."),
    ),
    "Counters of an agent loop.",
)

escalation = Block(
    EscalationPolicy,
    (
        Field("timeout", wall, "How long a question waits for an answer.", "timeout_s"),
        Field("headless", choice("wait", "deny"), "What happens when nobody can be asked."),
    ),
    "Asking a person.",
)


def _read_run_as(entry: Any, place: Place) -> str | int | None:
    if isinstance(entry, int) and not isinstance(entry, bool):
        uid: int | None = count(0, 2**32 - 2).read(entry, place)
        return uid
    name: str | None = text.read(entry, place)
    if name is not None and (":" in name or "/" in name or " " in name):
        return place.fault("must be a user name or a uid", entry, '"nobody"')
    return name


_run_as = Kind(
    _read_run_as,
    {
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": 2**32 - 2},
            {"type": "string", "pattern": r"^[^:/\s]+$"},
        ]
    },
)

box = Block(
    BoxPolicy,
    (
        Field("run_as", _run_as, "User the agent runs as when the supervisor is root."),
        Field("devices", listed(choice("kvm", "dri", "nvidia")), "Devices that exist inside."),
        Field("nested_userns", boolean, "For programs that sandbox themselves."),
        Field("noexec", boolean, "Whether writable places refuse to execute."),
    ),
    "Tuning of the box.",
)
