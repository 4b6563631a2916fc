"""Which programs run outside the agent's box, judged at each call (pure).

Argument rules and approvals would be politeness if the program simply lay in the box: any code
there could start it with other words. So a program with such rules does not exist in the box;
a shim at its name asks the supervisor, which runs it in a box of its own (broker/sibling.py).
"""

from __future__ import annotations

from collections.abc import Iterable

from axonkernel.policy.globs import argument_glob
from axonkernel.policy.model import Policy
from axonkernel.policy.profiles import SHIPPED

__all__ = ["brokered_names", "is_interpreter"]


def brokered_names(policy: Policy) -> tuple[str, ...]:
    """The names, paths and patterns of programs whose words a policy judges.

    None where the box has no unix sockets (``net.unix = "none"``): a shim could not ask. What a
    policy without a wall says is the mediator's.
    """
    shell = policy.shell
    if shell is None or (policy.net is not None and policy.net.unix == "none"):
        return ()
    return tuple(
        name
        for name, rules in shell.args
        if rules.allow is not None or rules.deny or rules.escalate
        if shell.allow is True or _may_be_allowed(name, shell.allow)
    )


def _may_be_allowed(name: str, allow: Iterable[str]) -> bool:
    """Whether an entry of ``shell.allow`` is about a program of this name, or may be."""
    return any(
        argument_glob(entry)(name)
        or argument_glob(name)(entry)
        or entry.rpartition("/")[2] == name.rpartition("/")[2]
        for entry in allow
    )


def is_interpreter(name: str) -> bool:
    """Whether a program's words are code, by its profile."""
    profile = SHIPPED.of(name)
    return profile is not None and profile.kind == "interpreter"
