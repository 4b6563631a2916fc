"""Tool names that a policy can speak of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from axonkernel.errors import Fault
from axonkernel.policy.faults import nearest, spelled, step
from axonkernel.policy.model import Policy, ToolRules

__all__ = ["BUILTIN_TOOLS", "unknown_builtins", "unknown_tools"]

#: What every kernel answers to, blocks included.
BUILTIN_TOOLS = (
    "block.bash", "block.python", "block.wasm", "fs.edit", "fs.glob", "fs.grep", "fs.list",
    "fs.read", "fs.remove", "fs.write", "http.fetch",
)  # fmt: skip

_GROUPS = frozenset(name.partition(".")[0] for name in BUILTIN_TOOLS)


def unknown_tools(policy: Policy, registered: Iterable[str]) -> tuple[Fault, ...]:
    """The rules for tools that an agent with just these tools does not have.

    A rule for nothing is a slip of the pen, and what it was meant for has another answer.

    Arguments:
        registered: the agent's own tools; the built-in ones are known anyway.
    """
    if policy.tools is None or (policy.wasm is not None and policy.wasm.folders):
        return ()  # what lies in a folder of tools is not known before it is used
    names = sorted({*BUILTIN_TOOLS, *registered})
    return tuple(_fault(name, path, names) for name, path in _unmatched(policy.tools, names))


def unknown_builtins(policy: Policy) -> tuple[Fault, ...]:
    """Of the rules in the groups that come built in, those that name none of their tools.

    An agent can have more tools in these groups, so this is no more than a remark.
    """
    faults = unknown_tools(policy, ())
    return tuple(fault for fault in faults if str(fault.value).partition(".")[0] in _GROUPS)


def _unmatched(rules: ToolRules, names: list[str]) -> Iterator[tuple[str, str]]:
    for name, path in _spoken_of(rules, "", "$.tools"):
        group = name.removesuffix(".*")
        if name != "*" and not any(f"{known}.".startswith(f"{group}.") for known in names):
            yield name, path


def _spoken_of(rules: ToolRules, prefix: str, path: str) -> Iterator[tuple[str, str]]:
    for key, item in rules.entries:
        name, spot = f"{prefix}{key}", path + step(key)
        if isinstance(item, ToolRules):
            yield from _spoken_of(item, f"{name}.", spot)
        else:
            yield name, spot


def _fault(name: str, path: str, names: list[str]) -> Fault:
    close = nearest(name, names)
    fix = spelled(close) if close else f"register {name} with @agent.tool, or leave out the rule"
    return Fault(path, "names no tool there is", name, fix)
