"""What of a policy's values is not to be shown (pure)."""

from __future__ import annotations

import re

__all__ = ["without_credentials"]

_CREDENTIALS = re.compile(r"//.*@", re.DOTALL)


def without_credentials(url: str) -> str:
    """A URL without user and password; also of what is no good URL, up to its last ``@``."""
    return _CREDENTIALS.sub("//", url)
