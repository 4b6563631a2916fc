"""What is true of rules about words and of approvals (pure): held by the broker, or politeness.

The mediator judges every call that passes it. Code in a box can go around it, but for programs
that do not exist there (brokered.py).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from axonkernel.box.model import PostureField
from axonkernel.policy.model import Policy, ShellPolicy, SubjectRules, ToolRules

__all__ = ["escalates_calls", "held_in_part", "judged_rows"]

_AROUND = "code in the box can do the same around the mediator"
_HELD = "held by the broker for"
_OTHERS = "a program that does the same under another name is another program"


def judged_rows(
    policy: Policy, brokered: Collection[str], inside: Collection[str]
) -> Iterator[PostureField]:
    """The rows about ``shell.args``, ``shell.hazard``, ``shell.raw`` and escalations.

    Arguments:
        brokered: the programs that run only outside the box.
        inside: programs with argument rules that lie in it all the same.
    """
    shell = policy.shell
    if shell is not None:
        if shell.args:
            yield _row("shell.args", brokered, inside, _OTHERS)
        # A variable of the loader is one for whatever program there is.
        yield _row("shell.hazard", brokered, ("other programs",))
        if not shell.raw:
            yield PostureField("shell.raw", "mediator only", "", _AROUND)
    if escalates_calls(policy):
        asked = _asked_inside(shell, inside) if shell is not None else []
        asked += ["tools"] if _tools_escalate(policy.tools) else []
        yield _row("escalation", brokered, asked)


def held_in_part(row: PostureField) -> bool:
    """Whether a row says for which programs the broker holds it."""
    return row.note.startswith(_HELD)


def _row(
    field: str, brokered: Collection[str], inside: Collection[str], note: str = ""
) -> PostureField:
    if not brokered:
        return PostureField(field, "mediator only", "", _AROUND)
    if inside:
        names = f"{_HELD} {', '.join(brokered)}, not for {', '.join(inside)}"
        return PostureField(field, "mediator only", "", names)
    return PostureField(field, "enforced", "broker", note)


def _asked_inside(shell: ShellPolicy, inside: Collection[str]) -> list[str]:
    asking = {name for name, rules in shell.args if rules.escalate}
    return [name for name in inside if name in asking]


def escalates_calls(policy: Policy) -> bool:
    """Whether a person is asked about some call of a program or a tool."""
    shell = policy.shell.args if policy.shell else ()
    return any(rules.escalate for _, rules in shell) or _tools_escalate(policy.tools)


def _tools_escalate(rules: ToolRules | None) -> bool:
    for _, entry in rules.entries if rules else ():
        if entry == "escalate":
            return True
        if isinstance(entry, SubjectRules) and entry.escalate:
            return True
        if isinstance(entry, ToolRules) and _tools_escalate(entry):
            return True
    return False
