"""Destinations that a person lets a box reach while it runs. Standard library only."""

from __future__ import annotations

from axonkernel.typed import Any

__all__ = ["grant"]


def grant(order: dict[str, Any]) -> None:
    """Carry out an order to let ``host`` be reached for the rest of the run.

    By the process that has loaded the table. Raises BoxError.
    """
    from axonkernel.box import nft

    nft.add_elements([(order["host"], order["protocol"], int(order["ports"]))], None)
