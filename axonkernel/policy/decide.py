"""Decisions: a policy compiled once, then asked.

``decide`` is pure, total and deterministic. Precedence: deny, then escalate, then allow, then
deny; the order of lines in a policy never matters. A fault inside is a denial.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Protocol

from attrs import evolve, frozen

from axonkernel.policy.commands import Redirect
from axonkernel.policy.model import Policy
from axonkernel.policy.profiles import SHIPPED, Profile, Profiles
from axonkernel.policy.request import (
    AnyRequest,
    ConnectRequest,
    Decision,
    EnvRequest,
    Match,
    PathRequest,
    ProcessRequest,
    ShellRequest,
    ToolRequest,
    strictest,
)
from axonkernel.policy.rules.env import EnvRules
from axonkernel.policy.rules.fs import BoxGrants, FsRules
from axonkernel.policy.rules.net import NetRules, canonical_target
from axonkernel.policy.rules.opened import Opened, opened
from axonkernel.policy.rules.shell import STANDARD_PATH, ShellRules
from axonkernel.policy.rules.tools import ToolsRules
from axonkernel.policy.subjects import subject_requests
from axonkernel.policy.wellformed import (
    LONGEST_PATH,
    MOST_TEXT,
    argv_fault,
    malformed,
    malformed_name,
    surroundings_fault,
    too_complex,
    tool_fault,
    unencodable,
)

__all__ = ["STANDARD_PATH", "BoxGrants", "Judge", "Ruleset", "Stack", "compile"]

_CLOSED = "the block is absent and default is deny"


class Judge(Protocol):
    """Anything that answers requests: one ruleset, or a stack of them."""

    def decide(self, request: AnyRequest) -> Decision:
        """The answer to one request."""

    def matches(self, request: AnyRequest) -> tuple[Match, ...]:
        """Every rule that spoke about it."""


def compile(
    policy: Policy,
    *,
    path: tuple[str, ...] = STANDARD_PATH,
    layer: str = "policy",
    boxed: BoxGrants | None = None,
    fixed: frozenset[str] = frozenset(),
    profiles: Mapping[str, Profile] | None = None,
) -> Ruleset:
    """A policy as tables.

    Arguments:
        path: folders where bare program names are looked up, unless ``shell.path`` says.
        layer: what decisions by its rules name as their layer.
        boxed: what a box grants by itself, when the agent runs in one.
        fixed: entries of ``policy`` that are not its author's to take out; for ``explain``.
        profiles: the content of every file in ``shell.profiles``, by its name there.

    Raises KeyError for a profile file that is not given, ValueError for a policy that
    :func:`axonkernel.policy.parse.parse` would refuse.
    """
    closed = policy.closed()

    def absent(block: str) -> str:
        return _CLOSED if getattr(policy, block) is None else ""

    env = EnvRules(closed.env, layer=layer, absent=absent("env")) if closed.env else None
    shell, tools = closed.shell, closed.tools
    fs = FsRules(closed.fs, layer=layer, absent=absent("fs"), boxed=boxed) if closed.fs else None
    net = NetRules(closed.net, layer=layer, absent=absent("net")) if closed.net else None
    added = [(profiles or {})[file] for file in shell.profiles] if shell else []
    return Ruleset(
        policy,
        fs=fs,
        net=net,
        shell=ShellRules(
            shell,
            layer=layer,
            absent=absent("shell"),
            path=path,
            env=env,
            fs=fs,
            net=net,
            boxed=boxed is not None,
            profiles=Profiles(added) if added else SHIPPED,
        )
        if shell
        else None,
        env=env,
        tools=ToolsRules(tools, layer=layer, absent=absent("tools")) if tools else None,
        layer=layer,
        fixed=fixed,
        recompiled=partial(
            compile, path=path, layer=layer, boxed=boxed, fixed=fixed, profiles=profiles
        ),
    )


class Ruleset:
    """One compiled policy; made by :func:`compile`."""

    def __init__(
        self,
        policy: Policy,
        *,
        fs: FsRules | None,
        net: NetRules | None,
        shell: ShellRules | None,
        env: EnvRules | None,
        tools: ToolsRules | None,
        layer: str,
        fixed: frozenset[str],
        recompiled: Callable[[Policy], Ruleset],
    ) -> None:
        self.policy = policy
        self.layer = layer
        self.fixed = fixed
        #: Another policy compiled as this one was.
        self.recompiled = recompiled
        self.fs, self.net, self.shell, self.env, self.tools = fs, net, shell, env, tools
        self._judges: dict[type, Callable[[Any], Decision]] = {
            PathRequest: self._path,
            ConnectRequest: self._connect,
            ProcessRequest: self._process,
            ShellRequest: self._line,
            EnvRequest: self._variable,
            ToolRequest: self._tool,
        }

    def decide(self, request: AnyRequest) -> Decision:
        """The answer to one request. Never raises."""
        try:
            return self._judges[type(request)](request)
        except Exception as error:
            return Decision("deny", "internal", "builtin", "builtin", "", repr(error))

    def _path(self, request: PathRequest) -> Decision:
        path = request.path
        if len(path) > LONGEST_PATH:
            return too_complex(f"a path of {len(path)} characters")
        if "\0" in path or not path.startswith("/") or unencodable(path):
            return malformed(path, "a path is absolute and has no NUL and no half of a character")
        if self.fs is None:
            return _open("fs.write" if request.write else "fs.read", "$.fs", path)
        return self.fs.judge(request)

    def _connect(self, request: ConnectRequest) -> Decision:
        try:
            target = canonical_target(request.host)
            pinned = None if request.address is None else canonical_target(request.address)
        except ValueError as error:
            return malformed(request.host[:300], str(error)[:600])
        if not 1 <= request.port <= 65535 or request.protocol not in ("tcp", "udp"):
            detail = "write HOST:PORT or [IPV6]:PORT, a port of 1 to 65535, and /udp for UDP"
            return malformed(request.host[:300], detail)
        if self.net is None:
            return _open("net.host", "$.net", request.host)
        decision = self.net.judge(request, target)
        if pinned is not None and decision.verdict != "deny":
            return self.net.judge_address(request, pinned) or decision
        return decision

    def _process(self, request: ProcessRequest) -> Decision:
        if fault := argv_fault(request):
            return fault
        if self.shell is not None:
            return self.shell.judge(request)
        asked = [_open("shell.program", "$.shell", request.argv[0])]
        if self.env is not None:
            asked += map(self.env.judge_set, request.env)
        return strictest(asked)

    def _line(self, request: ShellRequest) -> Decision:
        if len(request.line) > MOST_TEXT:
            return too_complex(f"a line of {len(request.line)} characters")
        if fault := surroundings_fault(request):
            return fault
        text = f"{request.line}{request.cwd}"
        if "\0" in text or unencodable(text):
            return malformed(request.line[:200], "a NUL byte, or half a character")
        if any(map(malformed_name, request.env)) or not request.cwd.startswith("/"):
            return malformed(request.line[:200], "a variable's name, or a relative folder")
        if self.shell is None:
            asked = [_open("shell.raw", "$.shell", request.line[:200])]
            asked += map(self.env.judge_set, request.env) if self.env is not None else ()
            return strictest(asked)
        if refused := self.shell.judge_line(request):
            return refused
        if not request.line.strip(" \t\n"):
            return malformed("", "no program is named")
        judged = self.shell.judge(request)
        if judged.verdict == "deny":
            return judged
        return strictest([judged, *map(self._opened, opened(request))])

    def _opened(self, asked: Opened) -> Decision:
        """The verdict on what a redirection opens."""
        if isinstance(asked, PathRequest):
            return self._path(asked)
        if isinstance(asked, ConnectRequest):
            return self._connect(asked)
        code = "fs.write" if asked.write else "fs.read"
        if self.fs is None and self.net is None:
            return _open(code, "$.fs", asked.path)
        detail = "where a redirection leads cannot be seen"
        return Decision("deny", code, "builtin", "builtin", asked.path, detail)

    def _variable(self, request: EnvRequest) -> Decision:
        if malformed_name(request.name):
            return malformed(request.name, "not a variable name")
        if len(request.name) > MOST_TEXT:
            return too_complex("a variable name")
        if self.env is None:
            return _open("env.name", "$.env", request.name)
        return self.env.judge(request.name)

    def _tool(self, request: ToolRequest) -> Decision:
        if fault := tool_fault(request):
            return fault
        if self.tools is None:
            own = _open("tool", "$.tools", request.name)
        else:
            own = self.tools.judge(request)
        if not request.subjects:
            return own
        return strictest([own, *map(self.decide, subject_requests(request.subjects))])

    def matches(self, request: AnyRequest) -> tuple[Match, ...]:
        """Every rule that spoke about a request, for ``explain``. May be slow."""
        try:
            return tuple(
                match if match.layer else evolve(match, layer=self.layer)
                for match in self._matches(request)
            )
        except ValueError:
            return ()  # malformed: no rule was asked

    def _matches(self, request: AnyRequest) -> Iterator[Match]:
        if isinstance(request, ToolRequest):
            if self.tools is not None:
                yield from self.tools.matches(request)
            for part in subject_requests(request.subjects):
                yield from self._matches(part)
        elif isinstance(request, PathRequest) and self.fs is not None:
            yield from self.fs.matches(request)
        elif isinstance(request, ConnectRequest) and self.net is not None:
            yield from self.net.matches(request, canonical_target(request.host))
        elif isinstance(request, EnvRequest) and self.env is not None:
            yield from self.env.matches(request.name)
        elif isinstance(request, ProcessRequest | ShellRequest) and self.shell is not None:
            if isinstance(request, ShellRequest):
                if self.shell.judge_line(request) is not None:
                    return
                for asked in opened(request):
                    if not isinstance(asked, Redirect):
                        yield from self._matches(asked)
            yield from self.shell.matches(request)


@frozen
class Stack:
    """Several rulesets over each other: the strictest answer wins, the first of equals."""

    rulesets: tuple[Ruleset, ...]

    def decide(self, request: AnyRequest) -> Decision:
        """The answer to one request. Never raises."""
        decisions = [ruleset.decide(request) for ruleset in self.rulesets]
        if not decisions:
            return Decision("deny", "internal", "builtin", "builtin", "", "an empty stack")
        return strictest(decisions)

    def matches(self, request: AnyRequest) -> tuple[Match, ...]:
        """Every rule of every layer that spoke about a request."""
        return tuple(match for each in self.rulesets for match in each.matches(request))


def _open(code: str, rule: str, subject: str) -> Decision:
    return Decision("allow", code, rule, "default", subject, "not declared")
