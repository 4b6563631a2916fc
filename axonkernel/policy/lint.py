"""What is allowed in a policy and still worth a second look.

A fault stops a policy; a lint is a line that ``axonkernel check`` shows. Everything here is
decided from the value alone: nothing is looked up on the machine.
"""

from __future__ import annotations

from collections.abc import Iterator

from axonkernel.policy.broad import broad_grants
from axonkernel.policy.dead import dead_rules
from axonkernel.policy.faults import step
from axonkernel.policy.known import unknown_builtins
from axonkernel.policy.lookalikes import deception
from axonkernel.policy.model import Policy
from axonkernel.policy.parse import unparse
from axonkernel.policy.remark import Lint, LintCode

__all__ = ["Lint", "LintCode", "lints"]


def lints(policy: Policy) -> tuple[Lint, ...]:
    """Every remark about ``policy``: open blocks, broad grants, dead rules, odd texts."""
    if not policy.declared:
        return (Lint("unrestricted", "$", "no policy: the agent may do what you may do"),)
    looks = (_open_blocks, broad_grants, dead_rules, _unknown_tools, _odd_texts)
    return tuple(lint for look in looks for lint in look(policy))


def _open_blocks(policy: Policy) -> Iterator[Lint]:
    if policy.default == "deny":
        return
    for name in ("fs", "net", "shell", "env", "tools"):
        if getattr(policy, name) is None:
            yield Lint(
                "open", f"$.{name}", "is not declared, so it is open", f"{name} = false closes it"
            )


def _unknown_tools(policy: Policy) -> Iterator[Lint]:
    for fault in unknown_builtins(policy):
        message = f"{fault.value} is no built-in tool"
        yield Lint("unknown-tool", fault.path, message, fault.hint)


def _odd_texts(policy: Policy) -> Iterator[Lint]:
    """Remarks on any text, and on lists that say a thing twice."""
    yield from _walk(unparse(policy), "$")


def _walk(value: object, path: str) -> Iterator[Lint]:
    if isinstance(value, dict):
        for key, entry in value.items():
            spot = path + step(key)
            yield from _walk(key, spot)
            yield from _walk(entry, spot)
    elif isinstance(value, list):
        for index, entry in enumerate(value):
            if entry in value[:index]:
                yield Lint("duplicate", f"{path}[{index}]", f"{entry} is in the list already")
            yield from _walk(entry, f"{path}[{index}]")
    elif isinstance(value, str) and (what := deception(value)):
        yield Lint("deceptive", path, f"{value!a} has {what}")
