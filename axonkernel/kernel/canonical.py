"""Requests in the one form that is judged, shown and run."""

from __future__ import annotations

import json
from contextlib import suppress

from attrs import evolve

from axonkernel.errors import ToolError
from axonkernel.paths import resolve
from axonkernel.policy.commands import SimpleCommand, commands_of
from axonkernel.policy.request import (
    AnyRequest,
    Decision,
    PathRequest,
    ProcessRequest,
    ShellRequest,
    ToolRequest,
)
from axonkernel.policy.rules.opened import path_of
from axonkernel.policy.shell import LineFault
from axonkernel.policy.wellformed import MOST_TEXT, malformed, unencodable
from axonkernel.process import Lookup
from axonkernel.tools import ToolRegistry

__all__ = ["Canonical"]


class Canonical:
    """Makes requests canonical as this machine is now.

    Arguments:
        cwd: absolute folder that relative paths count from.
        lookup: finds programs.
        tools: bind the arguments of tool calls to their subjects.
    """

    def __init__(self, cwd: str, lookup: Lookup, tools: ToolRegistry) -> None:
        self.cwd = cwd
        self.lookup = lookup
        self.tools = tools

    def __call__(self, request: AnyRequest) -> AnyRequest:
        """``request`` with paths absolute, symlinks resolved and its program found."""
        if isinstance(request, PathRequest):
            spelled = request.spelled or request.path
            return evolve(request, path=resolve(request.path, self.cwd), spelled=spelled)
        if isinstance(request, ProcessRequest):
            return self._process(request)
        if isinstance(request, ShellRequest):
            return self._line(request)
        if isinstance(request, ToolRequest) and not request.subjects:
            return self._tool(request)
        return request

    def misfit(self, request: AnyRequest) -> Decision | None:
        """The denial of a tool call whose arguments do not fit the tool, or None.

        What it touches cannot be told, and so not judged. A call of it fails with ToolError,
        once the rules about its name let it through.
        """
        if not isinstance(request, ToolRequest) or request.subjects:
            return None
        tool = self.tools.get(request.name)
        try:
            if tool is not None:
                tool.bind(json.loads(request.args), self.cwd)
        except (ToolError, ValueError, TypeError, RecursionError) as error:
            return malformed(request.name, f"the arguments do not fit the tool: {error}")
        return None

    def _process(self, request: ProcessRequest) -> ProcessRequest:
        cwd = resolve(request.cwd, self.cwd)
        found = self.lookup.find(request.argv[0], cwd) if request.argv else None
        return evolve(request, cwd=cwd, resolved=found.file if found else None)

    def _line(self, request: ShellRequest) -> ShellRequest:
        """The files behind the programs and redirections of a line that can be read."""
        request = evolve(request, cwd=resolve(request.cwd, self.cwd), files=())
        if len(request.line) > MOST_TEXT or "\0" in request.line or unencodable(request.line):
            return request  # not looked at: it is denied
        files: dict[str, str] = {}
        with suppress(LineFault):
            for command in commands_of(request):
                files |= self._files(command)
        return evolve(request, files=tuple(sorted(files.items())))

    def _files(self, command: SimpleCommand) -> dict[str, str]:
        files: dict[str, str] = {}
        if command.program and command.cwd is not None:
            found = self.lookup.find(command.program, command.cwd).file
            files |= {command.program: found} if found else {}
        for redirect in command.redirects:
            if (path := path_of(redirect, command)) is not None:
                files[path] = resolve(path, "/")
        return files

    def _tool(self, request: ToolRequest) -> ToolRequest:
        tool = self.tools.get(request.name)
        if tool is None:
            return request
        try:
            return tool.bind(json.loads(request.args), self.cwd).request
        except (ToolError, ValueError, TypeError, RecursionError):
            return request  # arguments that do not fit: only the name can be judged
