"""The policy as JSON Schema, draft 2020-12, for editors and validators.

It comes from the tables that the parser reads by, and accepts every policy the parser
accepts. The parser is stricter where a schema cannot look: destinations, globs, names that
make programs load code, combinations.
"""

from __future__ import annotations

from typing import Any

from axonkernel.policy.levels import entry_schema
from axonkernel.policy.parse import policy_block

__all__ = ["json_schema"]


def json_schema() -> dict[str, Any]:
    """The schema as JSON data."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "axonkernel policy",
        **policy_block.schema(),
        "$defs": {"tool": entry_schema},
    }
