"""A request as data for a record."""

from __future__ import annotations

import json
from typing import Any

from axonkernel.audit.bounds import abridged
from axonkernel.policy.request import (
    AnyRequest,
    ConnectRequest,
    EnvRequest,
    PathRequest,
    ProcessRequest,
    ShellRequest,
    ToolRequest,
)
from axonkernel.policy.wellformed import DEEPEST, MOST_TEXT, depth_of

__all__ = ["request_fields"]


#: Characters of a request that is passed on whole: records cross the wall of a box, and a
#: message there is bounded.
_MOST_WHOLE = 256 * 1024
_MOST_SENT_BYTES = 1024 * 1024


def request_fields(request: AnyRequest) -> dict[str, Any]:
    """What was asked. Arguments of tools are data again, so that names in them are seen."""
    fields = _fields(request)
    return fields if _size(request) <= _MOST_WHOLE else abridged(fields, _MOST_SENT_BYTES)


def _size(request: AnyRequest) -> int:
    """Its characters, without what is looked up for it."""
    if isinstance(request, ToolRequest):
        return len(request.name) + len(request.args)
    if isinstance(request, ProcessRequest):
        return sum(map(len, request.argv)) + sum(map(len, request.env)) + len(request.cwd)
    if isinstance(request, ShellRequest):
        return len(request.line) + sum(map(len, request.env)) + len(request.cwd)
    if isinstance(request, PathRequest):
        return len(request.path)
    return len(request.host if isinstance(request, ConnectRequest) else request.name)


def _fields(request: AnyRequest) -> dict[str, Any]:
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
        connect: dict[str, Any] = {"connect": [request.host, request.port, request.protocol]}
        if request.last:
            connect["last"] = request.last
        return connect if request.address is None else {**connect, "address": request.address}
    if isinstance(request, EnvRequest):
        return {"env": request.name}
    return {"tool": request.name, "args": _arguments(request.args)}


def _arguments(text: str) -> Any:
    # Text that is not read again could hold secrets that only their names tell.
    if len(text) > MOST_TEXT or depth_of(text) > DEEPEST:
        return f"[{len(text)} characters, not looked into]"
    try:
        return json.loads(text)
    except ValueError:
        return text
