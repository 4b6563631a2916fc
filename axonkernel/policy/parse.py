"""Policy data to a :class:`~axonkernel.policy.model.Policy`, and back.

A policy is understood in full or refused: one ``PolicyError`` lists every fault there is,
each with its place, the value and a correction to paste. Lexical only: nothing here looks at
the file system.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from attrs import evolve

from axonkernel.errors import Fault, PolicyError
from axonkernel.policy.blocks import env, fs, net, shell
from axonkernel.policy.faults import Place
from axonkernel.policy.fields import Block, Field
from axonkernel.policy.guests import wasm
from axonkernel.policy.kinds import choice
from axonkernel.policy.levels import tools
from axonkernel.policy.model import ISOLATION_ORDER, Policy
from axonkernel.policy.tuning import box, budget, escalation, limits

__all__ = ["collect", "parse", "policy_block", "unparse"]

policy_block = Block(
    Policy,
    (
        Field(
            "isolation",
            choice(*ISOLATION_ORDER),
            "What happens when the machine cannot enforce a declared field.",
        ),
        Field("default", choice("allow", "deny"), "What an absent block means."),
        Field("fs", fs.kind, fs.doc),
        Field("net", net.kind, net.doc),
        Field("shell", shell.kind, shell.doc),
        Field("env", env.kind, env.doc),
        Field("tools", tools, "Dotted tool names to verdicts."),
        Field("limits", limits.kind, limits.doc),
        Field("budget", budget.kind, budget.doc),
        Field("escalation", escalation.kind, escalation.doc),
        Field("wasm", wasm.kind, wasm.doc),
        Field("box", box.kind, box.doc),
    ),
    "What an agent may do.",
)


def parse(
    data: Mapping[str, Any], *, base: str = "/", home: str | None = None, source: str = "policy"
) -> Policy:
    """The policy that ``data`` spells out. An empty mapping declares nothing.

    Arguments:
        data: the mapping, as in Python, TOML or JSON.
        base: absolute folder that relative paths count from.
        home: absolute folder that ``~`` stands for; None makes ``~`` a fault.
        source: the file or place of the data, for messages.

    Raises:
        PolicyError: every fault found.
    """
    policy, faults = collect(data, base=base, home=home)
    if policy is None or faults:
        raise PolicyError(faults, source)
    return policy


def collect(
    data: Any, *, base: str = "/", home: str | None = None
) -> tuple[Policy | None, tuple[Fault, ...]]:
    """What could be read of ``data`` and every fault; for callers with faults of their own.

    The policy may only be used when there are no faults.
    """
    place = Place(base=base, home=home)
    policy: Policy | None = policy_block.read(data, place)
    if policy is not None and not data:
        policy = evolve(policy, declared=False)
    return policy, tuple(place.faults)


def unparse(policy: Policy) -> dict[str, Any]:
    """The policy as JSON data; ``parse(unparse(p)) == p`` for every parsed ``p``.

    Paths come out absolute, units as plain numbers, tools under their dotted names.
    """
    written = policy_block.write(policy)
    if policy.declared and not written:
        # An empty mapping would say that there is no policy.
        return {"default": policy.default}
    return written
