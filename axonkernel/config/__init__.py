"""Find and load a configuration: ``axon.config.py``, ``policy.toml`` or ``policy.json``.

``source`` and ``owner`` are standard library only; import them from their own modules where
attrs must not be loaded.
"""

from __future__ import annotations

from axonkernel.typed import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from axonkernel.config.evaluate import evaluate_python
    from axonkernel.config.loaded import LoadedPolicy, load
    from axonkernel.config.source import NAMES, Source, discover, read_source
    from axonkernel.config.trust import TrustStore

__all__ = [
    "NAMES",
    "LoadedPolicy",
    "Source",
    "TrustStore",
    "discover",
    "evaluate_python",
    "load",
    "read_source",
]

_HOMES = {
    "NAMES": "source",
    "LoadedPolicy": "loaded",
    "Source": "source",
    "TrustStore": "trust",
    "discover": "source",
    "evaluate_python": "evaluate",
    "load": "loaded",
    "read_source": "source",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
