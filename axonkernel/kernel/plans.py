"""A program call before its decision: what is asked, and what runs when it is allowed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from attrs import frozen

from axonkernel.blocks import bash_words
from axonkernel.errors import AxonError
from axonkernel.paths import resolve
from axonkernel.policy.match import needs_shell, split_words
from axonkernel.policy.request import Decision, ProcessRequest, ShellRequest
from axonkernel.policy.wellformed import malformed_name, overlong, unencodable
from axonkernel.process import Located

if TYPE_CHECKING:
    from axonkernel.kernel.core import Core
    from axonkernel.kernel.scope import Scope

__all__ = ["Command", "Env", "Plan", "Plans"]

Command = str | Iterable[str]
Env = Mapping[str, str] | None


@frozen
class Plan:
    """A program call before its decision: the request, and what runs when it is allowed.

    Arguments:
        channel: a socket for the program (process.Start); -1 for none.
    """

    request: ProcessRequest | ShellRequest
    program: Located
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    channel: int = -1


class Plans:
    """Makes plans of program calls, in a kernel."""

    def __init__(self, core: Core) -> None:
        self._core = core

    def fixed(self, argv: tuple[str, ...], channel: int) -> Plan:
        """A program of our own choice, the interpreter of a block, with a socket for it."""
        located = Located(argv[0], resolve(argv[0]))
        request = ProcessRequest(argv, self._core.cwd, resolved=located.file)
        return Plan(request, located, argv, {}, self._core.cwd, channel)

    def line(self, text: str, *, cwd: str = ".", env: Env = None, spawn: bool = False) -> Plan:
        """A line for bash. Raises PolicyDenied where there is no bash to run it."""
        folder = resolve(cwd, self._core.cwd)
        names = tuple(sorted(env or ()))
        request = self._core.canonical(ShellRequest(text, folder, spawn, names))
        assert isinstance(request, ShellRequest)
        located = self._core.lookup.find("bash", folder)
        if located.file is None:
            detail = "there is no bash, the one shell whose lines are judged"
            raise self._refused(request, "shell.raw", detail)
        self._refuse_bad_env(request, env)
        return Plan(request, located, bash_words(text), dict(env or {}), folder)

    def of(
        self, command: Command, scope: Scope, *, raw: bool, cwd: str, env: Env, spawn: bool
    ) -> Plan:
        """What ``command`` asks for, in the words it is judged by and run with.

        Raises PolicyDenied for what is refused whatever the policy says.
        """
        if isinstance(command, str):
            if raw and (needs_shell(command) or scope.policy.shell is None):
                line = self.line(command, cwd=cwd, env=env, spawn=spawn)
                if spawn:
                    self._refuse_one_too_many(line.request, scope)
                return line
            # Plain words run as words also where a shell would be allowed: their program is
            # found, judged and run as one file.
            argv = self._split(command, cwd)
        else:
            argv = tuple(str.__str__(word) for word in command)
        folder = resolve(cwd, self._core.cwd)
        located = self._core.lookup.find(argv[0], folder) if argv else Located("", None)
        names = tuple(sorted(env or ()))
        request = ProcessRequest(argv, folder, spawn, names, located.file)
        self._refuse_bad_env(request, env)
        if spawn:
            self._refuse_one_too_many(request, scope)
        return Plan(request, located, argv, dict(env or {}), folder)

    def _split(self, text: str, cwd: str) -> tuple[str, ...]:
        if needs_shell(text):
            request = ShellRequest(text, resolve(cwd, self._core.cwd))
            raise self._refused(request, "shell.raw", "the call did not ask for a shell (raw)")
        return split_words(text)

    def _refuse_bad_env(self, request: ProcessRequest | ShellRequest, env: Env) -> None:
        for name, value in (env or {}).items():
            if malformed_name(name) or "\0" in value or unencodable(value):
                raise self._refused(request, "request.malformed", "a variable is not well formed")
            if overlong(f"{name}={value}"):
                why = "a variable longer than any program can be started with"
                raise self._refused(request, "request.too_complex", why)

    def _refuse_one_too_many(self, request: ProcessRequest | ShellRequest, scope: Scope) -> None:
        shell = scope.policy.shell
        cap = shell.spawn if shell is not None else None
        if cap and len(self._core.closing) >= cap:
            raise self._refused(request, "shell.spawn", f"{cap} processes are running already")

    def _refused(self, request: ProcessRequest | ShellRequest, code: str, why: str) -> AxonError:
        decision = Decision("deny", code, "$.shell", "builtin", detail=why)
        return self._core.mediator.refuse(request, decision)
