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
from typing import NoReturn

from axonkernel.box import overmount
from axonkernel.box.channel import Channel, ChannelClosed
from axonkernel.box.inotify import IS_FOLDER, Folders
from axonkernel.box.keeping import Action, Rules
from axonkernel.box.linux import (
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWUSER,
    die_with_parent,
    owning_user_namespace,
    set_namespace,
)
from axonkernel.box.model import Kept, Watch
from axonkernel.box.names import SYSTEM
from axonkernel.box.openings import is_open_to_write
from axonkernel.box.sockets import Owners
from axonkernel.errors import BoxError

__all__ = ["MOST_FOLDERS", "serve"]

#: Folders watched for new names; what lies in more is reported and not watched.
MOST_FOLDERS = 8_192
_MOST_REPORTS = 256
#: How often, and how far apart, a folder that the box has open is looked at (seconds).
_LOOKS = 4
_LOOK_AGAIN_S = 0.01
#: After so many batches of events without a quiet moment, each is followed by a rest.
_MOST_BATCHES, _QUIET_MS, _REST_S = 32, 1, 0.01
#: A name that is exchanged all the time is one kind of thing in every second try.
_TRIES = 64
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EACCES)


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
        self.places: dict[str, int] = {}
        self.reports = 0
        self.runs = False

    # -- before the box's program runs --------------------------------------------------

    def enter(self, mounts: int, network: int) -> None:
        """Join the mount namespace of the box, as the user it maps, and look at its sockets."""
        owner = owning_user_namespace(mounts)
        if os.fstat(owner).st_ino != os.stat("/proc/self/ns/user").st_ino:
            set_namespace(owner, CLONE_NEWUSER)
        if os.fstat(network).st_ino != os.stat("/proc/self/ns/net").st_ino:
            set_namespace(network, CLONE_NEWNET)
            self.owners.enter()
        _become_mapped()
        set_namespace(mounts, CLONE_NEWNS)
        for fd in (mounts, network, owner):
            os.close(fd)
        # A change of user has undone the first.
        die_with_parent(signal.SIGKILL)
        self.files = overmount.EmptyFiles()
        self.spare = self.files.another()

    def begin(self) -> None:
        """Watch what is kept, and make good what has changed since the plan was made."""
        for folder in self.rules.folders():
            self._watch(folder)
        for item in self.rules.below("/"):
            self._hold(item)

    def look_around(self) -> None:
        """See to everything below the grants, where a new name may matter."""
        if self.rules.everywhere:
            for grant, _ in self.rules.grants:
                if grant != "/" and not any(_in(grant, top) for top in SYSTEM):
                    self._enter(grant)

    # -- while it runs ------------------------------------------------------------------

    def run(self) -> None:
        """Act on what happens, until the warden ends."""
        self.runs = True
        poll = select.poll()
        for source in (self.folders, self.warden, self.steward):
            if source is not None:
                poll.register(source, select.POLLIN)
        busy = 0
        while True:
            ready = {fd for fd, _ in poll.poll()}
            self._act()
            # A name that changes all the time must not cost the host a processor.
            busy = busy + 1 if poll.poll(_QUIET_MS) else 0
            if busy > _MOST_BATCHES:
                time.sleep(_REST_S)
            if ready - {self.folders.fileno()}:
                return  # the others have nothing to say but that it is over

    def _act(self) -> None:
        """See to what has happened; what happened to one name many times, once."""
        waiting = {
            (action, bool(event.mask & IS_FOLDER)): None
            for event in self.folders.read()
            for action in self.rules.on(event)
        }
        for action, is_folder in waiting:
            self._do(action, is_folder=is_folder)

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
                self._enter(path)
            case ("tell", path):
                self._tell("name.made", path)

    def _cover(self, item: Kept, *, is_folder: bool) -> None:
        """The quick way: every microsecond here is one in which the name is open."""
        folder = self.places.get(posixpath.dirname(item.path), -1)
        if item.how == "mask" and not is_folder and folder >= 0:
            with contextlib.suppress(OSError):  # seen to below
                overmount.put(self.spare, folder, posixpath.basename(item.path))
                os.close(self.spare)
                self.spare = self.files.another()
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
        elif self.rules.everywhere and self.rules.is_granted(path):
            self._enter(path)

    # -- one name -----------------------------------------------------------------------

    def _hold(self, item: Kept) -> bool:
        """See that something lies over a name; whether that had to be put there."""
        for last in range(_TRIES - 1, -1, -1):
            try:
                return self._held(item)
            except OSError as error:
                # EINVAL: exchanged between two calls, for something of another kind, or its
                # folder was.
                if error.errno in _ABSENT:
                    return False  # gone again: there will be another event
                if error.errno != errno.EINVAL or not last:
                    raise
        return False

    def _held(self, item: Kept) -> bool:
        folder_path, name = posixpath.split(item.path)
        folder = self._place(folder_path)
        try:
            if overmount.is_mount(folder, name):
                return False
        except OSError as error:
            if error.errno not in _ABSENT or not self._is_made(item):
                raise
        self._put(item, folder, name)
        if item.how == "pin":
            self._watch(item.path)
        elif item.how == "read-only" and self.runs:
            self._require_unopened(item.path)
        return True

    def _require_unopened(self, path: str) -> None:
        """A descriptor that the box has got meanwhile would write past any mount."""
        found = os.stat(path)
        folder = stat.S_ISDIR(found.st_mode)
        # Who only lists a folder has let go of it by the last look.
        for _ in range(_LOOKS if folder else 1):
            if not is_open_to_write(found.st_dev, found.st_ino, folder=folder):
                return
            time.sleep(_LOOK_AGAIN_S)
        raise BoxError("keeper", f"{path} was opened for writing while the host replaced it")

    def _put(self, item: Kept, folder: int, name: str) -> None:
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        leads = ""
        if stat.S_ISLNK(found.st_mode):
            leads = item.source or os.path.realpath(item.path)
        mount = -1
        if item.how != "mask":
            with contextlib.suppress(OSError):
                mount = self._same_again(item, folder, name, leads)
        if mount < 0:
            is_folder = stat.S_ISDIR(found.st_mode)
            mount = overmount.empty_folder() if is_folder else self.files.another()
        try:
            overmount.put(mount, folder, name)
        finally:
            os.close(mount)
        if leads and item.how == "mask" and self.rules.is_granted(leads):
            self._hold(Kept(leads, "mask"))

    def _same_again(self, item: Kept, folder: int, name: str, leads: str) -> int:
        """What lies at the name, or where a link there leads: a file, since only a file can
        be put over a link."""
        place = overmount.looked_up(leads) if leads else overmount.looked_up(name, folder)
        try:
            if leads and stat.S_ISDIR(os.fstat(place).st_mode):
                raise IsADirectoryError(errno.EISDIR, leads)
            return overmount.same_again(place, read_only=item.how != "pin")
        finally:
            os.close(place)

    def _is_made(self, item: Kept) -> bool:
        """Have the steward put a stub at a name that is not there."""
        if not item.stub or self.steward is None:
            return False
        self.steward.send({"op": "make", "item": item})
        answer, _ = self.steward.receive()
        return bool(answer["made"])

    def _place(self, path: str) -> int:
        """A folder in the box as it is now, links in its path not followed."""
        found = overmount.looked_up(path)
        if path in self.places:
            os.close(self.places[path])
        self.places[path] = found
        return found

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
            folder = overmount.looked_up(path)
        except OSError as error:
            if error.errno not in _ABSENT:
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

    def _enter(self, top: str) -> None:
        """Watch a folder and all below it, and see to what is in them."""
        waiting = [top]
        while waiting:
            path = waiting.pop()
            if len(self.folders) >= MOST_FOLDERS:
                self._tell("watch.full", path)
                return
            try:
                watched = self._watch(path)
            except OSError:  # no more for this user: what is kept by name comes first
                self._tell("watch.full", path)
                return
            for name, is_folder in _names(path) if watched else ():
                inner = posixpath.join(path, name)
                for action in self.rules.on_new(inner, is_folder=is_folder):
                    if action.verb == "enter":
                        waiting.append(inner)
                    elif action.verb in ("mask", "look"):
                        self._do(action, is_folder=is_folder)

    def _tell(self, what: str, path: str) -> None:
        if self.reports < _MOST_REPORTS:
            self.reports += 1
            self.warden.send({"kept": [what, path]})


def _names(path: str) -> list[tuple[str, bool]]:
    try:
        with os.scandir(path) as entries:
            return [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    except OSError:
        return []


def _become_mapped() -> None:
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
