"""What can be asked, and what comes back.

A request is a frozen copy of what was asked: what was decided is what is shown and what runs.
``Request`` makes them::

    Request.process(["git", "push"])   Request.shell("git log | head")
    Request.tool("fs.read", {"path": "a.txt"})
    Request.read("/srv/a")   Request.write("/srv/a")
    Request.connect("api.github.com:443")   Request.env("TOKEN")
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

from attrs import field, frozen

from axonkernel.policy.model import Verdict
from axonkernel.policy.told import beginning, told

__all__ = [
    "CODES",
    "RETRYABLE",
    "AnyRequest",
    "Argv",
    "ConnectRequest",
    "Decision",
    "EnvRequest",
    "Match",
    "PathRequest",
    "ProcessRequest",
    "Request",
    "ShellRequest",
    "Subject",
    "SubjectKind",
    "ToolRequest",
]

Argv = tuple[str, ...]
SubjectKind = Literal["read", "write", "host", "url", "argv", "secret"]

#: The closed list of decision codes and what each is about.
CODES: Mapping[str, str] = {
    "fs.read": "a path to read",
    "fs.write": "a path to write",
    "net.host": "a network destination",
    "net.private": "a private, local or metadata address that only a literal rule may grant",
    "shell.program": "a program",
    "shell.args": "a program's arguments",
    "shell.hazard": "an option or assignment that makes a program run other programs",
    "shell.raw": "a line that needs a shell",
    "shell.spawn": "a process that would outlive its call",
    "env.name": "an environment variable",
    "tool": "a tool",
    "request.malformed": "a request that is not well formed (NUL bytes, ambiguous addresses)",
    "request.too_complex": "a request beyond the size that is analysed",
    "repeated": "a call denied by a person three times",
    "internal": "a fault inside axonkernel; the call is denied",
}

#: Codes where asking for something narrower can help; the others end the matter.
RETRYABLE = frozenset(
    {"fs.read", "fs.write", "net.host", "shell.args", "shell.hazard", "shell.raw"}
    | {"request.malformed", "request.too_complex"}
)


@frozen
class Subject:
    """One thing a tool call touches, by type, as its signature declared it."""

    kind: SubjectKind
    value: str | Argv


@frozen
class ToolRequest:
    """A call of a registered tool.

    Arguments:
        name: the registered, dotted name.
        args: the arguments as canonical JSON text.
        subjects: what the tool's signature says it touches.
        spelled: the beginning of the arguments as the asker wrote them, for messages only.
    """

    name: str
    args: str = "{}"
    subjects: tuple[Subject, ...] = ()
    spelled: str = field(default="", eq=False)

    @property
    def action(self) -> str:
        """The request in the asker's words, for denials and prompts."""
        return told(f"tool {self.name} {self.spelled}".rstrip())


@frozen
class ProcessRequest:
    """A program to run.

    Arguments:
        argv: its words; the first names the program.
        cwd: absolute working directory.
        spawn: whether it may outlive the call.
        env: names the caller wants to set for it.
        resolved: the absolute, symlink-free file the name stands for, when known.
    """

    argv: Argv
    cwd: str = "/"
    spawn: bool = False
    env: tuple[str, ...] = ()
    resolved: str | None = None

    @property
    def action(self) -> str:
        """The request in the asker's words, for denials and prompts."""
        return told(f"{'spawn' if self.spawn else 'run'} {json.dumps(list(self.argv))}")


@frozen
class ShellRequest:
    """A line of shell text to run in bash.

    Arguments:
        line: exactly the text that bash gets.
        cwd: absolute working directory.
        spawn: whether it may outlive the call.
        env: names the caller wants to set for it.
        files: pairs of a spelling (a program's name, the absolute path of a redirection) and
            the symlink-free file it stands for, where known.
    """

    line: str
    cwd: str = "/"
    spawn: bool = False
    env: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()

    @property
    def action(self) -> str:
        """The request in the asker's words, for denials and prompts."""
        return told(f"{'spawn shell' if self.spawn else 'shell'} {json.dumps(self.line)}")


@frozen
class PathRequest:
    """A path to read or write: absolute, symlinks already resolved by the mediator."""

    path: str
    write: bool = False
    #: The asker's own spelling, for messages; the path itself when empty.
    spelled: str = field(default="", eq=False)

    @property
    def action(self) -> str:
        """The request in the asker's words, for denials and prompts."""
        return told(f"{'write' if self.write else 'read'} {self.spelled or self.path}")


@frozen
class ConnectRequest:
    """A destination to reach: a host name or literal address, a port, a protocol.

    Arguments:
        port: 1 to 65535; -1 where what was asked is not well formed.
        address: what the name was resolved to, once that is known. A granted name brings no
            private address, and no address that is denied.
        last: the last of several ports: a person is asked about a name before its port is
            known. 0 for ``port`` alone.
    """

    host: str
    port: int
    protocol: Literal["tcp", "udp"] = "tcp"
    address: str | None = None
    last: int = 0

    @property
    def ports(self) -> str:
        """As a policy writes them."""
        return f"{self.port}-{self.last}" if self.last else f"{self.port}"

    @property
    def action(self) -> str:
        """The request in the asker's words, for denials and prompts."""
        if self.port < 0:
            return told(f"connect {self.host}")  # not well formed, and shown as it was asked
        host = f"[{self.host}]" if ":" in self.host else self.host
        suffix = "/udp" if self.protocol == "udp" else ""
        return told(f"connect {host}:{self.ports}{suffix}")


@frozen
class EnvRequest:
    """An environment variable to see."""

    name: str

    @property
    def action(self) -> str:
        """The request in the asker's words, for denials and prompts."""
        return told(f"env {self.name}")


AnyRequest = ToolRequest | ProcessRequest | ShellRequest | PathRequest | ConnectRequest | EnvRequest


@frozen
class Match:
    """One rule that spoke about a request: its verdict, JSON path and text, and its layer."""

    verdict: Verdict
    rule: str
    text: str = ""
    layer: str = ""


@frozen
class Decision:
    """The answer to one request. Pure: the same request always gets the same one.

    Arguments:
        verdict: allow, deny or escalate.
        code: one of :data:`CODES`.
        rule: JSON path of the rule that won, such as ``$.shell.deny[0]``; for the operator.
        layer: where that rule lives: ``policy``, ``profile``, ``request``, ``box``,
            ``default`` or ``builtin``.
        subject: the part of the request the rule is about.
        detail: why, for the operator.
        walls: what stands around the call where it is allowed, as a kernel knows it:
            ``mediator``, and below it ``broker``, ``box`` or ``landlock``; () from a ruleset.
    """

    verdict: Verdict
    code: str
    rule: str
    layer: str = "policy"
    subject: str = ""
    detail: str = ""
    walls: tuple[str, ...] = field(default=(), eq=False)


#: Strictness of verdicts; the strictest of several wins.
STRICTNESS: Mapping[Verdict, int] = {"allow": 0, "escalate": 1, "deny": 2}


def strictest(decisions: Iterable[Decision]) -> Decision:
    """The strictest of one or more decisions; the first of equals."""
    return max(decisions, key=lambda decision: STRICTNESS[decision.verdict])


#: A host, or an IPv6 address in brackets; a port; a protocol.
_DESTINATION: Final = re.compile(
    r"(?:\[(?P<v6>[^\[\]]*:[^\[\]]*)\]|(?P<host>[^][:/]+))(?::(?P<port>[0-9]{1,5}))?"
    r"(?:/(?P<protocol>tcp|udp))?"
)


class Request:
    """Constructors of requests. None of them touches the system."""

    @staticmethod
    def process(
        argv: Iterable[str], *, cwd: str = "/", spawn: bool = False, env: Iterable[str] = ()
    ) -> ProcessRequest:
        """A program with its words, as a list."""
        return ProcessRequest(tuple(argv), cwd, spawn, tuple(env))

    @staticmethod
    def shell(
        line: str, *, cwd: str = "/", spawn: bool = False, env: Iterable[str] = ()
    ) -> ShellRequest:
        """A line of shell text."""
        return ShellRequest(line, cwd, spawn, tuple(env))

    @staticmethod
    def tool(
        name: str,
        args: Mapping[str, Any] | None = None,
        *,
        subjects: Iterable[Subject] = (),
        spelled: Mapping[str, Any] | None = None,
    ) -> ToolRequest:
        """A tool call; ``args`` that are no JSON data are denied by ``decide``.

        ``spelled`` are the arguments as the asker wrote them, where ``args`` are not.
        """
        args = dict(args or {})
        try:
            text = json.dumps(
                args, sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=repr
            )
            shown = beginning(args if spelled is None else spelled)
        except (TypeError, ValueError, RecursionError) as error:
            # Names of two types, a cycle, too deep: what was asked cannot be written down.
            text, shown = json.dumps(f"no JSON data: {error}"), ""
        return ToolRequest(name, text, tuple(subjects), shown)

    @staticmethod
    def read(path: str) -> PathRequest:
        """A path to read."""
        return PathRequest(path, spelled=path)

    @staticmethod
    def write(path: str) -> PathRequest:
        """A path to write."""
        return PathRequest(path, write=True, spelled=path)

    @staticmethod
    def connect(destination: str) -> ConnectRequest:
        """``host:port`` or ``[v6]:port``, and then ``/tcp`` or ``/udp`` if it is said; port
        443 when none is given.

        Nothing is judged here: any other text is kept whole as the host, with a port that
        nothing allows, and denied by ``decide``.
        """
        match = _DESTINATION.fullmatch(destination)
        if match is None:
            return ConnectRequest(destination, -1)
        protocol: Literal["tcp", "udp"] = "udp" if match["protocol"] == "udp" else "tcp"
        return ConnectRequest(match["v6"] or match["host"], int(match["port"] or 443), protocol)

    @staticmethod
    def env(name: str) -> EnvRequest:
        """An environment variable by name."""
        return EnvRequest(name)
