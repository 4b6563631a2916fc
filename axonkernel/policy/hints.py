"""What would have to change for a request to be allowed. For the operator only.

Nothing is taken on trust: every edit is made on a copy of the policy, which is compiled and
asked again, until the answer is yes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from attrs import evolve

from axonkernel.errors import PolicyError
from axonkernel.policy.change import Change, edited
from axonkernel.policy.commands import commands_of
from axonkernel.policy.decide import Ruleset
from axonkernel.policy.entries import path, program
from axonkernel.policy.globs import escape
from axonkernel.policy.match import normalize
from axonkernel.policy.parse import parse, unparse
from axonkernel.policy.request import (
    AnyRequest,
    ConnectRequest,
    Decision,
    ProcessRequest,
    ShellRequest,
    ToolRequest,
)
from axonkernel.policy.rules.tools import subject_texts

__all__ = ["changes"]

#: A request asks about few things; a line of shell text about some more.
_MOST_CHANGES = 40

_LINE = re.compile(r"\$\.(?P<block>fs|net|shell|env)\.(?P<list>[a-z_]+)\[(?P<index>[0-9]+)\]\Z")
_ARGS = re.compile(
    r"\$\.shell\.args\.(?P<program>.+)\.(?P<list>allow|deny|escalate)(?:\[(?P<index>[0-9]+)\])?\Z",
    re.DOTALL,
)
_TOOL_LINE = re.compile(r"\$\.tools\..+\.(?P<list>allow|deny|escalate)(?:\[(?P<index>[0-9]+)\])?\Z")

_NEVER = frozenset({"internal", "request.too_complex", "request.malformed"})

_Edits = tuple[Change, ...]


def changes(ruleset: Ruleset, request: AnyRequest) -> _Edits | None:
    """The edits of one policy that make it allow ``request``; None when nothing does.

    () when it is allowed already.
    """
    made: _Edits = ()
    decision = ruleset.decide(request)
    while decision.verdict != "allow":
        if len(made) >= _MOST_CHANGES or decision.code in _NEVER:
            return None
        step = _step(ruleset, request, decision)
        if step is None:
            return None
        edits, ruleset = step
        made += edits
        decision = ruleset.decide(request)
    return made


def _step(
    ruleset: Ruleset, request: AnyRequest, decision: Decision
) -> tuple[_Edits, Ruleset] | None:
    """The first edits that get anywhere, and the policy with them."""
    data = unparse(ruleset.policy)
    for found in _candidates(decision, request, data):
        edits = tuple(evolve(edit, layer=ruleset.layer) for edit in found)
        if any(edit.kind == "remove" and edit.value in ruleset.fixed for edit in edits):
            continue
        try:
            changed = data
            for edit in edits:
                changed = edited(changed, edit)
            after = ruleset.recompiled(parse(changed))
        except (PolicyError, ValueError):
            continue
        said = after.decide(request)
        if said.verdict == "allow" or _about(said) != _about(decision):
            return edits, after
    return None


def _about(decision: Decision) -> tuple[str, ...]:
    return decision.verdict, decision.code, decision.rule, decision.subject, decision.detail


def _candidates(
    decision: Decision, request: AnyRequest, data: dict[str, Any]
) -> Iterator[tuple[Change, ...]]:
    """What may help, the narrowest first."""
    for edit in _edits(decision, request, data):
        yield (edit,)
        if edit.keys[0] == "fs":
            # A control socket or a folder of the kernel has to be named twice.
            yield _add("fs.unsafe", edit.value), edit
        elif edit.keys[0] == "shell" and "allow" not in data.get("shell", {}):
            # A block without it would only tune.
            yield Change("set", ("shell", "allow"), []), edit
    if line := _LINE.match(decision.rule):
        yield from _removal((line["block"], line["list"]), line["index"], data)
    elif line := _ARGS.match(decision.rule):
        yield from _removal(("shell", "args", line["program"], line["list"]), line["index"], data)


def _removal(
    keys: tuple[str, ...], index: str | None, data: dict[str, Any]
) -> Iterator[tuple[Change, ...]]:
    entries: Any = data
    for key in keys:
        entries = entries.get(key, {})
    if index is not None and isinstance(entries, list) and int(index) < len(entries):
        yield (Change("remove", keys, entries[int(index)]),)


def _edits(decision: Decision, request: AnyRequest, data: dict[str, Any]) -> Iterator[Change]:
    subject = decision.subject
    if decision.code in ("fs.read", "fs.write"):
        yield from _paths(decision)
    elif decision.code in ("net.host", "net.private"):
        if not _LINE.match(decision.rule):
            yield _add("net.allow", _destination(decision, request))
    elif decision.code == "env.name":
        yield _add("env.allow", subject)
        yield _add("env.unsafe_allow", subject)
    elif decision.code == "shell.hazard":
        if decision.rule == "builtin:control":
            yield _add("env.unsafe_allow", subject)
        else:
            yield _add("shell.unsafe", escape(subject))
    elif decision.code == "tool" and isinstance(request, ToolRequest):
        yield from _tools(decision, request, data.get("tools", {}))
    else:
        yield from _programs(decision, request)


def _add(where: str, value: str) -> Change:
    return Change("add", tuple(where.split(".")), value)


def _paths(decision: Decision) -> Iterator[Change]:
    if decision.rule == "builtin:control":
        yield _add("fs.unsafe", path.write(decision.subject))
    # A deny has to go; nothing that is added helps against it.
    if ".deny[" not in decision.rule:
        yield _add(decision.code, path.write(decision.subject))


def _destination(decision: Decision, request: AnyRequest) -> str:
    """The requested destination as a policy spells it."""
    host, _, port = decision.subject.rpartition(":")
    host = f"[{host}]" if ":" in host else host
    udp = isinstance(request, ConnectRequest) and request.protocol == "udp"
    return f"{host}:{port}{'/udp' if udp else ''}"


def _programs(decision: Decision, request: AnyRequest) -> Iterator[Change]:
    if decision.code in ("shell.raw", "shell.spawn"):
        yield Change("set", tuple(decision.code.split(".")), True)
    elif decision.code == "shell.program" and ".deny[" not in decision.rule:
        name = decision.subject
        yield _add("shell.allow", program.write(name) if "/" in name else escape(name))
        if "/" in name and isinstance(request, ProcessRequest | ShellRequest):
            yield _add("shell.allow", program.write(normalize(f"{request.cwd}/{name}")))
    elif (line := _ARGS.match(decision.rule)) and line["list"] == "allow":
        for pattern in (*_patterns(decision.subject, request), "*"):
            yield Change("add", ("shell", "args", line["program"], "allow"), pattern)


def _patterns(name: str, request: AnyRequest) -> Iterator[str]:
    """The words of each command of a program, as patterns that allow just them."""
    if isinstance(request, ProcessRequest | ShellRequest):
        for command in commands_of(request):
            if command.program == name:
                yield " ".join(map(_quoted, command.words))


def _quoted(word: str) -> str:
    plain = word and all(c.isalnum() or c in "-_./=:@%+," for c in word)
    return word if plain else "'" + word.replace("'", "'\\''") + "'"


def _tools(decision: Decision, request: ToolRequest, tools: dict[str, Any]) -> Iterator[Change]:
    """A pattern more or less where patterns decide, then the tool by its name."""
    name = request.name
    rule = tools.get(name)
    line = _TOOL_LINE.match(decision.rule)
    if line and isinstance(rule, dict):
        keys = ("tools", name, line["list"])
        if line["index"] is not None:
            yield Change("remove", keys, rule[line["list"]][int(line["index"])])
        else:
            for text in subject_texts(request):
                yield Change("add", keys, escape(text))
    yield Change("set", ("tools", name), True)
    # A rule for the group has to be told apart from the rule for one of its tools.
    group = next((key for key in tools if name.startswith(f"{key}.")), None)
    if group is not None:
        below = {"*": tools[group], name.removeprefix(f"{group}."): True}
        yield Change("set", ("tools", group), below)
    yield Change("set", ("tools", f"{name}.*"), True)
