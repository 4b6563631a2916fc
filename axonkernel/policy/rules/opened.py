"""What the redirections of a shell line open, as requests for the other blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from axonkernel.policy.commands import Redirect, SimpleCommand, commands_of
from axonkernel.policy.match import normalize
from axonkernel.policy.request import ConnectRequest, PathRequest, Request, ShellRequest

__all__ = ["Opened", "opened"]

#: Paths that bash connects to instead of opening them (bash manual, 3.6).
_SOCKET: Final = re.compile(r"/dev/(tcp|udp)/([^/]*)/(.*)", re.DOTALL)

Opened = PathRequest | ConnectRequest | Redirect


def opened(request: ShellRequest) -> Iterator[Opened]:
    """Every file or destination the shell itself opens for a line.

    A redirection whose path is not known comes out as it is. Raises LineFault as
    :func:`commands_of` does.
    """
    for command in commands_of(request):
        for redirect in command.redirects:
            yield _request(redirect, command)


def _request(redirect: Redirect, command: SimpleCommand) -> Opened:
    path = redirect.path
    if redirect.dynamic:
        return redirect
    if match := _SOCKET.fullmatch(path):
        host = f"[{match[2]}]" if ":" in match[2] else match[2]
        return Request.connect(f"{host}:{match[3] or 'none'}/{match[1]}")
    if not path.startswith("/"):
        if command.cwd is None:
            return redirect
        path = f"{command.cwd}/{path}"
    return PathRequest(normalize(path), redirect.write, redirect.path)
