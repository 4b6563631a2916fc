"""What the redirections of a shell line open, as requests for the other blocks."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from axonkernel.policy.commands import Redirect, SimpleCommand, commands_of
from axonkernel.policy.match import normalize
from axonkernel.policy.request import ConnectRequest, PathRequest, Request, ShellRequest

__all__ = ["Opened", "opened", "path_of"]

#: Paths that bash connects to instead of opening them (bash manual, 3.6).
_SOCKET: Final = re.compile(r"/dev/(tcp|udp)/([^/]*)/(.*)", re.DOTALL)

Opened: TypeAlias = PathRequest | ConnectRequest | Redirect


def opened(request: ShellRequest) -> Iterator[Opened]:
    """Every file or destination the shell itself opens for a line.

    A redirection whose path is not known comes out as it is. Symlinks are those of
    ``request.files``. Raises LineFault as :func:`commands_of` does.
    """
    files = dict(request.files)
    for command in commands_of(request):
        for redirect in command.redirects:
            yield _request(redirect, command, files)


def path_of(redirect: Redirect, command: SimpleCommand) -> str | None:
    """The absolute path of a redirection, ``..`` and all; None when it is not known."""
    if redirect.dynamic:
        return None
    if redirect.path.startswith("/"):
        return redirect.path
    return None if command.cwd is None else f"{command.cwd}/{redirect.path}"


def _request(redirect: Redirect, command: SimpleCommand, files: Mapping[str, str]) -> Opened:
    path = path_of(redirect, command)
    if path is None:
        return redirect
    if match := _SOCKET.fullmatch(path):
        host = f"[{match[2]}]" if ":" in match[2] else match[2]
        return Request.connect(f"{host}:{match[3] or 'none'}/{match[1]}")
    return PathRequest(files.get(path) or normalize(path), redirect.write, redirect.path)
