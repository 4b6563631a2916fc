"""The mediator: every call is decided, recorded and, where the policy says so, asked about."""

from __future__ import annotations

from axonkernel.kernel.kernel import Handler, Kernel

__all__ = ["Handler", "Kernel"]
