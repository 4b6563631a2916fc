"""What boxes with a veth link changed on this host, written down before it is done.

One file per link in :data:`FOLDER`, locked for as long as its keeper lives, and one with the
settings that had to change, which all links of a network share. Whoever comes next finds the
files that nobody holds and undoes what they name. The folder is on a file system that ends
with the boot, as everything does that it tells of. Standard library only.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import socket
from collections.abc import Iterator
from typing import NamedTuple

from axonkernel.box.link import CHANGED
from axonkernel.box.net import Switch

__all__ = ["FOLDER", "Changes", "changes", "network_here"]

FOLDER = CHANGED
_SO_NETNS_COOKIE = 71  # Linux 5.14
_SYSCTL = "/proc/sys/net/"


def network_here() -> str:
    """A name for the network namespace of this process that is not used twice in a boot."""
    cookie = b""
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket,
        contextlib.suppress(OSError),
    ):
        cookie = any_socket.getsockopt(socket.SOL_SOCKET, _SO_NETNS_COOKIE, 8)
    return f"{os.stat('/proc/self/ns/net').st_ino}-{cookie.hex()}"


@contextlib.contextmanager
def changes() -> Iterator[Changes]:
    """The records of this host, held by nobody else meanwhile. Raises OSError.

    The folder is removed when nothing is left in it.
    """
    folder = _locked_folder()
    try:
        yield Changes(network_here())
    finally:
        with contextlib.suppress(OSError):  # not empty
            os.rmdir(FOLDER)
        fcntl.flock(folder, fcntl.LOCK_UN)  # also for a child that has a copy of it
        os.close(folder)


def _locked_folder() -> int:
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkdir(FOLDER, 0o700)
        try:
            folder = os.open(FOLDER, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError:
            continue
        fcntl.flock(folder, fcntl.LOCK_EX)
        with contextlib.suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(folder), os.stat(FOLDER)):
                return folder
        os.close(folder)  # removed while this process waited


class Changes(NamedTuple):
    """The records, as seen from one network (see :func:`network_here`)."""

    network: str

    # -- links --------------------------------------------------------------------------

    def begin(self, id: str) -> int:
        """Write down a link that is about to be made; its record lives as long as the
        descriptor that is returned, in whatever process."""
        path = f"{FOLDER}/link-{id}"
        record = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(record, fcntl.LOCK_EX)
        os.write(record, self.network.encode())
        return record

    def end(self, id: str) -> None:
        """Strike out a link of which nothing is left."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{FOLDER}/link-{id}")

    def abandoned(self) -> Iterator[str]:
        """Ids of links of this network whose keeper is gone."""
        for id, network, held in _links():
            if network == self.network and not held:
                yield id

    def forget_the_gone(self) -> None:
        """Strike out what is written of networks that are gone: the kernel took all of it."""
        for id, network, held in _links():
            if not held and network != self.network and not _inhabited(network):
                self.end(id)
        for path in glob.glob(f"{FOLDER}/switched-*"):
            network = path.rpartition("switched-")[2].removesuffix(".new")
            if network != self.network and not _inhabited(network):
                os.unlink(path)

    @property
    def in_use(self) -> bool:
        """Whether a link of this network is left."""
        return any(network == self.network for _, network, _ in _links())

    # -- settings -----------------------------------------------------------------------

    def switched(self) -> tuple[Switch, ...]:
        """The settings of this network that were changed, in the order it was done."""
        try:
            with open(self._switched, encoding="utf-8") as file:
                return tuple(Switch(*each) for each in json.load(file))
        except FileNotFoundError:
            return ()

    def note(self, more: tuple[Switch, ...]) -> tuple[Switch, ...]:
        """Write down settings about to be changed; returns all that are written down."""
        known = self.switched()
        paths = {switch.path for switch in known}
        noted = (*known, *(switch for switch in more if switch.path not in paths))
        with open(f"{self._switched}.new", "w", encoding="utf-8") as file:
            json.dump(noted, file)
        os.replace(f"{self._switched}.new", self._switched)
        return noted

    def switch(self, changed: tuple[Switch, ...]) -> None:
        """Make settings; those of interfaces that are gone have nothing to say."""
        for switch in changed:
            write_setting(switch.path, switch.after)

    def switch_back(self) -> None:
        """Put back what was changed, but for what others have changed since."""
        known = self.switched()
        now = {switch.path: read_setting(switch.path) for switch in known}
        # Someone turned forwarding on for everything meanwhile: it is theirs now.
        theirs = read_setting("ipv4/ip_forward") == "1"
        for switch in reversed(known):
            ours = not (theirs and switch.path.startswith("ipv4/"))
            if ours and now[switch.path] == switch.after:
                write_setting(switch.path, switch.before)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._switched)

    @property
    def _switched(self) -> str:
        return f"{FOLDER}/switched-{self.network}"


def read_setting(path: str) -> str | None:
    """The value of a setting below /proc/sys/net; None when there is none."""
    try:
        with open(_SYSCTL + path, encoding="ascii") as file:
            return file.read().strip()
    except (FileNotFoundError, NotADirectoryError):
        return None


def write_setting(path: str, value: str) -> None:
    """Set a setting, unless its interface is gone. Raises OSError."""
    with (
        contextlib.suppress(FileNotFoundError),
        open(_SYSCTL + path, "w", encoding="ascii") as file,
    ):
        file.write(value)


def _links() -> Iterator[tuple[str, str, bool]]:
    """Id, network and "its keeper lives" of each record."""
    for path in sorted(glob.glob(f"{FOLDER}/link-*")):
        with open(path, encoding="ascii") as file:
            held = False
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                held = True
            yield path.rpartition("link-")[2], file.read(), held


def _inhabited(network: str) -> bool:
    inode = int(network.partition("-")[0] or 0)
    for path in (*glob.glob("/proc/[0-9]*/ns/net"), *glob.glob("/run/netns/*")):
        with contextlib.suppress(OSError):
            if os.stat(path).st_ino == inode:
                return True
    return False
