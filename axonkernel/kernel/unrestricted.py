"""A kernel that no policy restricts: refused where one is required, and never silent."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterable

from axonkernel.policy.model import Policy
from axonkernel.required import no_policy, policy_required

__all__ = ["tell_or_refuse"]

_lock = threading.Lock()
_told = False


def tell_or_refuse(policies: Iterable[Policy]) -> None:
    """Say once per process, on standard error, that nothing restricts the agent.

    Arguments:
        policies: all layers; one that declares something is a policy.

    Raises PolicyError when AXON_REQUIRE_POLICY asks for a policy.
    """
    if any(policy.declared for policy in policies):
        return
    if policy_required():
        raise no_policy("")
    if _first() and sys.stderr is not None:
        sys.stderr.write("axonkernel: unrestricted: no policy\n")


def _first() -> bool:
    global _told
    with _lock:
        first, _told = not _told, True
    return first
