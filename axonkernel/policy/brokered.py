"""Which programs run outside the agent's box, judged at each call (pure).

Argument rules and approvals would be politeness if the program simply lay in the box: any code
there could start it with other words. So a program with such rules does not exist in the box;
a shim at its name asks the supervisor, which runs it in a box of its own (broker/sibling.py).
"""

from __future__ import annotations

from axonkernel.policy.model import Policy, ShellPolicy
from axonkernel.policy.profiles import SHIPPED

__all__ = ["can_ask", "is_interpreter", "judged_names", "runs_others"]


def judged_names(shell: ShellPolicy) -> tuple[str, ...]:
    """The names, paths and patterns of programs whose words are judged."""
    return tuple(
        name
        for name, rules in shell.args
        if rules.allow is not None or rules.deny or rules.escalate
    )


def can_ask(policy: Policy) -> bool:
    """Whether a program in a box for ``policy`` can ask its supervisor: by a unix socket."""
    return policy.net is None or policy.net.unix != "none"


def is_interpreter(name: str) -> bool:
    """Whether a program's words are code, by its profile."""
    profile = SHIPPED.of(name)
    return profile is not None and profile.kind == "interpreter"


def runs_others(name: str) -> bool:
    """Whether it is a program's work to start whatever others there are, by its profile: alone
    in a box it would do nothing, and beside them nothing would hold its words."""
    profile = SHIPPED.of(name)
    if profile is None:
        return False
    return profile.kind == "wrapper" or profile.sibling.get("alone") is False
