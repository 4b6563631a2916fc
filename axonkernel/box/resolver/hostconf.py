"""Which resolvers the host asks: its resolv.conf, as it is now. Standard library only."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from ipaddress import ip_address

from axonkernel.typed import NamedTuple

__all__ = ["PATH", "HostConf", "Settings", "parse"]

PATH = "/etc/resolv.conf"
_MOST_SERVERS, _MOST_DOMAINS = 3, 6
_TIMEOUT_S, _MOST_S = 2.0, 5.0
#: How often it is looked at (seconds).
_EVERY_S = 1.0
_MOST_BYTES = 64 * 1024


class Settings(NamedTuple):
    """What it says: addresses, domains for short names, seconds to wait, rounds to ask."""

    servers: tuple[str, ...] = ("127.0.0.1",)
    search: tuple[str, ...] = ()
    timeout_s: float = _TIMEOUT_S
    attempts: int = 2


def parse(text: str) -> Settings:
    """The settings of a resolv.conf; what is not understood counts for nothing, as in libc."""
    servers: list[str] = []
    search: tuple[str, ...] = ()
    numbers: dict[str, int] = {}
    for line in text.splitlines():
        words = line.split("#")[0].split(";")[0].split()
        if len(words) < 2:
            continue
        if words[0] == "nameserver" and _is_address(words[1]):
            servers.append(words[1])
        elif words[0] in ("search", "domain"):
            search = tuple(word.strip(".").lower() for word in words[1:] if word.strip("."))
        elif words[0] == "options":
            pairs = (word.partition(":") for word in words[1:])
            numbers |= {name: int(value) for name, _, value in pairs if value.isdecimal()}
    return Settings(
        tuple(servers[:_MOST_SERVERS]) or Settings().servers,
        search[:_MOST_DOMAINS],
        min(max(float(numbers.get("timeout", _TIMEOUT_S)), 0.5), _MOST_S),
        min(max(numbers.get("attempts", 2), 1), 3),
    )


def _is_address(text: str) -> bool:
    """Not one with a zone: its interface has that number on the host alone."""
    try:
        return ip_address(text) is not None and "%" not in text
    except ValueError:
        return False


class HostConf:
    """The settings now; the file is read again when it has changed.

    Arguments:
        resolver: the one server to ask instead of the host's; "" for those.
    """

    def __init__(
        self,
        resolver: str = "",
        path: str = PATH,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._resolver = resolver
        self._path = path
        self._clock = clock
        self._looked_s = float("-inf")
        self._seen: tuple[int, ...] = ()
        self._settings = Settings()

    def now(self) -> Settings:
        """A file that cannot be read counts as an empty one."""
        if self._clock() - self._looked_s >= _EVERY_S:
            self._looked_s = self._clock()
            self._look()
        if self._resolver:
            return self._settings._replace(servers=(self._resolver,))
        return self._settings

    def _look(self) -> None:
        try:
            found = os.stat(self._path)
            seen = (found.st_dev, found.st_ino, found.st_mtime_ns, found.st_size)
            if seen == self._seen:
                return
            with open(self._path, encoding="utf-8", errors="replace") as file:
                self._settings = parse(file.read(_MOST_BYTES))
            self._seen = seen
        except OSError:
            self._settings, self._seen = Settings(), ()
