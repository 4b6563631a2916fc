"""The keeper's hand: the process in a box's mount namespace that puts masks back.

A mount lies on what a name stands for. When the host saves a masked file by rename, the mask
goes with the old file and the new one is open. The hand sees that (inotify) and lays another
mask over the name at once. It has the box's mount namespace in common with the box and nothing
else: not its processes, so that nothing in the box sees or reaches it.

Standard library only. Any failure ends it, and the warden then ends the box.
"""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import select
import signal
import stat
import time

from axonkernel.box.channel import Channel, ChannelClosed
from axonkernel.box.covers import ABSENT, Covers
from axonkernel.box.inotify import IS_FOLDER, Folders
from axonkernel.box.keeping import Action, Rules
from axonkernel.box.linux import (
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUSER,
    die_with_parent,
    look_up,
    owning_user_namespace,
    set_namespace,
)
from axonkernel.box.model import Kept, Watch
from axonkernel.box.names import SYSTEM
from axonkernel.box.sockets import Owners
from axonkernel.typed import NoReturn

__all__ = ["MOST_FOLDERS", "become_mapped", "serve"]

#: Folders watched for new names; what lies in more is reported and not watched.
MOST_FOLDERS = 8_192
_MOST_REPORTS = 256
_NAMES_AT_ONCE = 256
_CLOCK_REALTIME_COARSE = 5
#: After so many batches of events without a quiet moment, each is followed by a rest.
_MOST_BATCHES, _QUIET_MS, _REST_S = 32, 1, 0.01


def serve(warden: Channel, steward: Channel | None, watch: Watch) -> NoReturn:
    """Hold ``watch`` in the box whose namespaces the warden sends, until either ends."""
    try:
        hand = _Hand(warden, steward, Rules(watch))
        _, (mounts, network) = warden.receive()
        hand.enter(mounts, network)
        hand.begin()
        warden.send({"ready": True})
        hand.look_around()
        hand.run()
        os._exit(0)
    except ChannelClosed:
        os._exit(0)
    except BaseException as error:
        with contextlib.suppress(ChannelClosed):
            warden.send({"fault": str(error) or repr(error)})
    os._exit(1)


class _Hand:
    def __init__(self, warden: Channel, steward: Channel | None, rules: Rules) -> None:
        self.warden = warden
        self.steward = steward
        self.rules = rules
        self.folders = Folders()
        self.owners = Owners()
        #: Whether there were too many folders from the start.
        self.is_full = False
        self.told: set[tuple[str, str]] = set()
        #: Folders to see to, and what in each is told of (_see_to).
        self.waiting: list[tuple[str, int]] = []
        # By the clock that stamps files; the box is made later.
        self.began_ns = time.clock_gettime_ns(_CLOCK_REALTIME_COARSE)

    # -- before the box's program runs --------------------------------------------------

    def enter(self, mounts: int, network: int) -> None:
        """Join the mount namespace of the box, as the user it maps, and look at its sockets."""
        owner = owning_user_namespace(mounts)
        if os.fstat(owner).st_ino != os.stat("/proc/self/ns/user").st_ino:
            set_namespace(owner, CLONE_NEWUSER)
        if os.fstat(network).st_ino != os.stat("/proc/self/ns/net").st_ino:
            set_namespace(network, CLONE_NEWNET)
            self.owners.enter()
        become_mapped()
        set_namespace(mounts, CLONE_NEWNS)
        for fd in (mounts, network, owner):
            os.close(fd)
        # A change of user has undone the first.
        die_with_parent(signal.SIGKILL)
        self.covers = Covers(self.steward, self.rules.is_granted)

    def begin(self) -> None:
        """Watch what is kept, and make good what has changed since the plan was made."""
        for folder in self.rules.folders():
            self._watch(folder)
        for item in self.rules.below("/"):
            self._hold(item)

    def look_around(self) -> None:
        """Have everything below the grants seen to, where a new name may matter."""
        if self.rules.everywhere:
            self.waiting = [
                (grant, self.began_ns)
                for grant, _ in self.rules.grants
                if grant != "/" and not any(_in(grant, top) for top in SYSTEM)
            ]

    # -- while it runs ------------------------------------------------------------------

    def run(self) -> None:
        """Act on what happens, until the warden ends; what waits is seen to in between."""
        self.covers.runs = True
        poll = select.poll()
        for source in (self.folders, self.warden, self.steward):
            if source is not None:
                poll.register(source, select.POLLIN)
        busy = 0
        while True:
            ready = {fd for fd, _ in poll.poll(0 if self.waiting else None)}
            self._act()
            if self.waiting:
                self._see_to(*self.waiting.pop())
            # A name that changes all the time must not cost the host a processor.
            elif poll.poll(_QUIET_MS):
                busy += 1
            else:
                busy = 0
            if busy > _MOST_BATCHES:
                time.sleep(_REST_S)
            if ready - {self.folders.fileno()}:
                # The others have nothing to say but that it is over; what was made is told.
                for _ in range(_MOST_BATCHES):
                    if not self._act() | self._see_to_new():
                        return
                return

    def _see_to_new(self) -> bool:
        """See to the folders that are new, if any, and to no others."""
        new = [folder for folder in self.waiting if not folder[1]]
        self.waiting.clear()
        for folder in new:
            self._see_to(*folder)
        return bool(new)

    def _act(self) -> bool:
        """See to what has happened, if anything; what happened to one name many times, once."""
        waiting = {
            (action, bool(event.mask & IS_FOLDER)): None
            for event in self.folders.read()
            for action in self.rules.on(event)
        }
        for action, is_folder in waiting:
            self._do(action, is_folder=is_folder)
        return bool(waiting)

    def _do(self, action: Action, *, is_folder: bool) -> None:
        match action:
            case ("cover", path):
                self._cover(self.rules.kept[path], is_folder=is_folder)
            case ("hold", path):
                if self._hold(self.rules.kept[path]):
                    self._tell("mask.restored", path)
            case ("renew", path):
                self._renew(path)
            case ("mask", path):
                if self._hold(Kept(path, "mask")):
                    self._tell("mask.added", path)
            case ("look", path):
                self._look(path)
            case ("enter", path):
                self.waiting.append((path, 0))
            case ("tell", path):
                self._tell("name.made", path)

    def _cover(self, item: Kept, *, is_folder: bool) -> None:
        if item.how == "mask" and not is_folder:
            self.covers.cover_quickly(item.path)
        self._hold(item)
        self._tell("mask.restored", item.path)

    def _renew(self, path: str) -> None:
        for folder in self.rules.folders():
            if _in(folder, path):
                self._watch(folder)
        for item in self.rules.below(path):
            if self._hold(item):
                self._tell("mask.restored", item.path)
        if path == "/":
            self.look_around()
        elif self.rules.minds(path):
            self.waiting.append((path, 0))

    # -- one name -----------------------------------------------------------------------

    def _hold(self, item: Kept) -> bool:
        """See that something lies over a name; whether that had to be put there."""
        put = self.covers.hold(item)
        if put and item.how == "pin":
            self._watch(item.path)
        return put

    def _look(self, path: str) -> None:
        with contextlib.suppress(OSError):  # gone again
            found = os.stat(path, follow_symlinks=False)
            if not stat.S_ISSOCK(found.st_mode):
                return
            written = self.rules.is_written(path)
            if written and self.owners.is_of_the_box(found.st_dev, found.st_ino):
                return
            if self._hold(Kept(path, "mask")):
                self._tell("mask.added", path)

    # -- folders ------------------------------------------------------------------------

    def _watch(self, path: str) -> bool:
        """Whether a folder is there and watched from now on."""
        try:
            folder = look_up(path)
        except OSError as error:
            if error.errno not in ABSENT:
                raise
            return False
        try:
            self.folders.add(path, folder)
            return True
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise OSError(error.errno, "this user may watch no more folders") from error
            return False  # no folder, or closed to this user and so to the box
        finally:
            os.close(folder)

    def _see_to(self, path: str, since_ns: int) -> None:
        """Watch a folder and see to what is in it.

        Arguments:
            since_ns: what was last changed before is not told of; 0 in a folder that is new
                at its place.
        """
        if len(self.folders) >= MOST_FOLDERS:
            self._give_up_at(path, since_ns)
            return
        try:
            watched = self._watch(path)
        except OSError:  # no more for this user: what is kept by name comes first
            self._give_up_at(path, since_ns)
            return
        for count, (name, is_folder) in enumerate(_names(path) if watched else (), 1):
            inner = posixpath.join(path, name)
            for action in self.rules.on_new(inner, is_folder=is_folder):
                if action.verb == "enter":
                    self.waiting.append((inner, since_ns))
                elif action.verb in ("mask", "look") or (
                    action.verb == "tell" and _changed_ns(inner) >= since_ns
                ):
                    self._do(action, is_folder=is_folder)
            if count % _NAMES_AT_ONCE == 0:
                self._act()  # a mask that is gone now cannot wait for the rest

    def _give_up_at(self, path: str, since_ns: int) -> None:
        # A box that makes folders until none can be watched would read what it is denied.
        if not since_ns and not self.is_full and self.rules.denies_new:
            raise OSError(errno.ENOSPC, f"folders made during the run are too many: {path}")
        self.is_full = True
        self.waiting.clear()
        self._tell("watch.full", path)

    def _tell(self, what: str, path: str) -> None:
        if (what, path) not in self.told and len(self.told) < _MOST_REPORTS:
            self.told.add((what, path))
            self.warden.send({"kept": [what, path]})


def _changed_ns(path: str) -> int:
    """When what lies at a path was made, renamed or changed last; -1 when it is gone."""
    try:
        return os.stat(path, follow_symlinks=False).st_ctime_ns
    except OSError:
        return -1


def _names(path: str) -> list[tuple[str, bool]]:
    try:
        with os.scandir(path) as entries:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except OSError:
        return []


def become_mapped() -> None:
    """Take the uid and gid that the user namespace knows; nobody can make a file."""
    with open("/proc/self/uid_map", encoding="ascii") as uids:
        uid = int(uids.read().split()[0])
    with open("/proc/self/gid_map", encoding="ascii") as gids:
        gid = int(gids.read().split()[0])
    # Even where that seems to be so already: an id that is not known reads as nobody's.
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder.rstrip('/')}/")
