"""A malformed policy beside its mended twin."""

from __future__ import annotations

from typing import Any

#: What is wrong, the policy, fault path -> part of the fix, the policy put right.
Row = tuple[str, Any, dict[str, str], dict[str, Any]]
