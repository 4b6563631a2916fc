"""Run an AI agent you do not trust: one declared policy, checked before anything executes.

Importing this loads none of the parts; each public name loads its own on first use.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # not of typing, whose import takes longer than the rest of this

if TYPE_CHECKING:
    from typing import Any

    from axonkernel.agent import Agent, define_agent
    from axonkernel.errors import (
        AuditError,
        AxonError,
        BoxError,
        EscalationDenied,
        EscalationPending,
        Fault,
        IsolationUnavailable,
        LimitExceeded,
        PolicyDenied,
        PolicyError,
        ProtocolError,
        ToolError,
    )
    from axonkernel.kernel import Kernel
    from axonkernel.policy.model import Policy
    from axonkernel.policy.request import Decision, Request
    from axonkernel.process import ProcessResult
    from axonkernel.tools import Argv, Host, Plain, ReadPath, Secret, Url, WritePath

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Argv",
    "AuditError",
    "AxonError",
    "BoxError",
    "Decision",
    "EscalationDenied",
    "EscalationPending",
    "Fault",
    "Host",
    "IsolationUnavailable",
    "Kernel",
    "LimitExceeded",
    "Plain",
    "Policy",
    "PolicyDenied",
    "PolicyError",
    "ProcessResult",
    "ProtocolError",
    "ReadPath",
    "Request",
    "Secret",
    "ToolError",
    "Url",
    "WritePath",
    "__version__",
    "define_agent",
]

_HOMES = {
    "agent": ("Agent", "define_agent"),
    "errors": (
        "AuditError",
        "AxonError",
        "BoxError",
        "EscalationDenied",
        "EscalationPending",
        "Fault",
        "IsolationUnavailable",
        "LimitExceeded",
        "PolicyDenied",
        "PolicyError",
        "ProtocolError",
        "ToolError",
    ),
    "kernel": ("Kernel",),
    "policy.model": ("Policy",),
    "policy.request": ("Decision", "Request"),
    "process": ("ProcessResult",),
    "tools": ("Argv", "Host", "Plain", "ReadPath", "Secret", "Url", "WritePath"),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
