"""What a box was refused on the network, rolled up and bounded (pure)."""

from __future__ import annotations

from axonkernel.box.model import Refusal

__all__ = ["AGAIN_S", "MOST", "Refusals"]

#: Destinations and names that are told apart; a box can try any number.
MOST = 256
#: How long what was told of is not told of again, however often it is tried (seconds).
AGAIN_S = 5.0
#: Where a name is what was asked for. Elsewhere it is only what led to the address.
_NAMES = frozenset(("dns", "tls-name"))


class Refusals:
    """One entry for each destination and each name, and one for the rest.

    Arguments:
        most: entries that are told apart.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._entries: dict[tuple[str, str, int, str], Refusal] = {}
        self._told_s: dict[tuple[str, str, int, str], float] = {}

    def note(self, *refusals: Refusal) -> tuple[Refusal, ...]:
        """Add to what is known; returns the entries to tell of now, with all that they count:
        new ones, and those that were last told of long enough ago."""
        tell = []
        for refusal in refusals:
            key = self._key(refusal)
            entry = self._entries[key] = _together(self._entries.get(key), refusal, key)
            told_s = self._told_s.get(key)
            if told_s is None or entry.last_s - told_s >= AGAIN_S:
                self._told_s[key] = entry.last_s
                tell.append(entry)
        return tuple(tell)

    def all(self) -> tuple[Refusal, ...]:
        """Everything so far, in the order it began; the rest last."""
        return tuple(sorted(self._entries.values(), key=lambda entry: not entry.protocol))

    def take(self) -> tuple[Refusal, ...]:
        """Everything so far, which is forgotten."""
        taken = self.all()
        self._entries.clear()
        self._told_s.clear()
        return taken

    def _key(self, refusal: Refusal) -> tuple[str, str, int, str]:
        told_by_name = not refusal.address or refusal.protocol in _NAMES
        name = refusal.name if told_by_name else ""
        key = (refusal.address, refusal.protocol, refusal.port, name)
        return key if key in self._entries or len(self._entries) < self._most else _REST


_REST = ("", "", 0, "")


def _together(known: Refusal | None, new: Refusal, key: tuple[str, str, int, str]) -> Refusal:
    if key == _REST:
        new = Refusal("", "", 0, "", new.times, new.first_s, new.last_s)
    if known is None:
        return new
    return known._replace(
        name=known.name or new.name,
        times=known.times + new.times,
        first_s=min(known.first_s, new.first_s),
        last_s=max(known.last_s, new.last_s),
        program=known.program or new.program,
    )
