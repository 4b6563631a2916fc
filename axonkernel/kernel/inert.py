"""Pickles of whoever is not trusted, read so that nothing happens.

A pickle can call what it names, and change, call and iterate whatever it has made. So one of
these names one thing only, reading it makes nothing but plain data and inert parts, and values
take the place of the parts when no pickle is left to do anything with them.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable
from typing import Any

__all__ = ["ATOMS", "Unpassable", "read"]

#: Of what a pickle makes by itself, that holds nothing else.
ATOMS = frozenset((type(None), bool, int, float, str, bytes, bytearray))


class Unpassable(Exception):
    """A value that cannot leave a worker, or that a worker may not send."""


def read(data: bytes | bytearray, named: tuple[str, str], rebuild: Callable[..., Any]) -> Any:
    """The value of a pickle.

    Arguments:
        named: module and name of the one thing it may name.
        rebuild: called in place of that, with values.

    Raises Unpassable for a pickle that does anything else, and what a broken one makes the
    standard library raise.
    """
    reader = _Reader(_View(data), named)
    value = reader.load()
    return _Placing(rebuild).of(value) if reader.has_parts else value


class _View:
    """Bytes as a file that is read without a copy of them all."""

    def __init__(self, data: bytes | bytearray) -> None:
        self._data = data
        self._left = memoryview(data)

    def read(self, size: int) -> bytes:
        """The next bytes, fewer at the end."""
        found, self._left = bytes(self._left[:size]), self._left[size:]
        return found

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer, as far as there is something."""
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size

    def readline(self) -> bytes:
        """Up to the next end of a line; no pickle of ours has lines."""
        at = len(self._data) - len(self._left)
        end = self._data.find(b"\n", at)
        return self.read((end if end >= 0 else len(self._data)) + 1 - at)


class _Part:
    """What a pickle names a function for: kept, and nothing done with it."""

    __slots__ = ("parts",)

    def __init__(self, *parts: Any) -> None:
        self.parts = parts

    def __setstate__(*_: Any) -> None:  # of the class itself, too
        raise Unpassable("it changes what it has made")


class _Reader(pickle.Unpickler):
    def __init__(self, file: _View, named: tuple[str, str]) -> None:
        super().__init__(file)
        self._named = named
        self.has_parts = False

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) != self._named:
            raise Unpassable(f"it names {module}.{name}")
        self.has_parts = True
        return _Part

    def persistent_load(self, identity: Any) -> Any:
        raise Unpassable("it refers to something outside of it")


class _Placing:
    """Puts values in the place of parts; lists, dicts and sets stay the same objects.

    Arguments:
        rebuild: makes a value of the arguments of a part, which are values already.
    """

    def __init__(self, rebuild: Callable[..., Any]) -> None:
        self._rebuild = rebuild
        self._done: dict[int, tuple[Any, Any]] = {}  # with the key's own, whose id it stays

    def of(self, value: Any) -> Any:
        """What stands for ``value``."""
        kind = type(value)
        if kind in ATOMS:
            return value
        if (found := self._done.get(id(value))) is not None:
            return found[1]
        if kind in (list, dict, set):
            self._done[id(value)] = value, value
            self._refill(value)
            return value
        items = []
        for each in self._parts(value, kind):
            items.append(each if type(each) in ATOMS else self.of(each))
        if (found := self._done.get(id(value))) is not None:
            return found[1]  # what lies in it holds it
        made = self._rebuild(*items) if kind is _Part else kind(items)
        self._done[id(value)] = value, made
        return made

    def _parts(self, value: Any, kind: type) -> Iterable[Any]:
        if kind not in (tuple, frozenset, _Part):
            raise Unpassable(f"it holds a {kind.__name__}")
        return getattr(value, "parts", ()) if kind is _Part else value

    def _refill(self, value: Any) -> None:
        if isinstance(value, list):
            for at, each in enumerate(value):
                if type(each) not in ATOMS:
                    value[at] = self.of(each)
            return
        old = list(value.items()) if isinstance(value, dict) else list(value)
        value.clear()
        if isinstance(value, dict):
            for key, each in old:
                key = key if type(key) in ATOMS else self.of(key)
                value[key] = each if type(each) in ATOMS else self.of(each)
            return
        for each in old:
            value.add(self.of(each))
