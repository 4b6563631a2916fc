"""Where the names that were answered last can be found (pure)."""

from __future__ import annotations

__all__ = ["Known"]

#: Names, and addresses of each, that are remembered.
_NAMES, _ADDRESSES = 512, 8


class Known:
    """The last addresses of each name. Those that may not be reached were never answered."""

    def __init__(self) -> None:
        self._names: dict[str, dict[str, None]] = {}

    def note(self, name: str, address: str) -> None:
        """A name was answered with an address."""
        found = self._names.pop(name, {})
        found.pop(address, None)
        found[address] = None
        self._names[name] = found
        for table, most in ((found, _ADDRESSES), (self._names, _NAMES)):
            while len(table) > most:
                del table[next(iter(table))]

    def addresses(self, name: str) -> list[str]:
        """Where a name is found, the last answer first."""
        return [*reversed(self._names.get(name, {}))]
