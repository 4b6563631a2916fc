"""SHA-256 without OpenSSL, which takes 3 ms of every launch to load."""

from __future__ import annotations

import sys

from axonkernel.typed import TYPE_CHECKING

if TYPE_CHECKING:
    from hashlib import sha256 as _sha256
else:
    try:
        from _sha2 import sha256 as _sha256
    except ImportError:  # before Python 3.12
        try:
            from _sha256 import sha256 as _sha256
        except ImportError:  # built without its own
            from hashlib import sha256 as _sha256

__all__ = ["sha256"]

_left = 500


def sha256(data: bytes) -> str:
    """The digest of ``data``, lower-case hexadecimal."""
    if (loaded := sys.modules.get("hashlib")) is not None:
        return str(loaded.sha256(data).hexdigest())  # three times as fast
    global _left
    _left -= 1
    if _left == 0:
        import hashlib  # noqa: F401  # whoever writes so many writes many more
    return _sha256(data).hexdigest()
