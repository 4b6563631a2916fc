"""A policy as code gives it: a value, data, or nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from axonkernel.policy.model import Policy

__all__ = ["PolicyLike", "policy_from"]

PolicyLike = Policy | Mapping[str, Any] | None


def policy_from(policy: PolicyLike, cwd: str) -> Policy:
    """A policy given as a value, as data (relative paths count from ``cwd``), or not at all.

    Raises PolicyError with every fault of the data.
    """
    if policy is None:
        return Policy(declared=False)
    if isinstance(policy, Policy):
        return policy
    from axonkernel.policy.parse import parse

    return parse(policy, base=cwd, home=os.path.expanduser("~"))
