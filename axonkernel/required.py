"""Where running without a policy is refused."""

from __future__ import annotations

import os

from axonkernel.errors import Fault, PolicyError

__all__ = ["no_policy", "policy_required"]


def policy_required(asked: bool | None = None) -> bool:
    """Whether running without a policy is refused: as asked, or by AXON_REQUIRE_POLICY."""
    if asked is not None:
        return asked
    return os.environ.get("AXON_REQUIRE_POLICY", "") not in ("", "0")


def no_policy(source: str) -> PolicyError:
    """The error for a policy that is needed, when ``source`` declares none or is ""."""
    what = "declares nothing" if source else "none was found"
    hint = "axonkernel init writes a closed one to start from, or give --policy FILE"
    return PolicyError([Fault("$", f"a policy is required, and {what}", hint=hint)],
                       source or "policy")  # fmt: skip
