"""A request as data for a record."""

from __future__ import annotations

import json
from typing import Any

from axonkernel.policy.request import (
    AnyRequest,
    ConnectRequest,
    EnvRequest,
    PathRequest,
    ProcessRequest,
    ShellRequest,
)

__all__ = ["request_fields"]


def request_fields(request: AnyRequest) -> dict[str, Any]:
    """What was asked. Arguments of tools are data again, so that names in them are seen."""
    if isinstance(request, ProcessRequest):
        return {
            "process": list(request.argv),
            "cwd": request.cwd,
            "spawn": request.spawn,
            "env": list(request.env),
            "resolved": request.resolved,
        }
    if isinstance(request, PathRequest):
        return {"write" if request.write else "read": request.path}
    if isinstance(request, ShellRequest):
        return {
            "shell": request.line,
            "cwd": request.cwd,
            "spawn": request.spawn,
            "env": list(request.env),
        }
    if isinstance(request, ConnectRequest):
        connect = {"connect": [request.host, request.port, request.protocol]}
        return connect if request.address is None else {**connect, "address": request.address}
    if isinstance(request, EnvRequest):
        return {"env": request.name}
    return {"tool": request.name, "args": _arguments(request.args)}


def _arguments(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
    except RecursionError:
        return f"[{len(text)} characters, nested too deep to be read]"
