"""Reading and changing files that were not granted."""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket

from axonkernel.escapes.attempt import Group, Refused
from axonkernel.escapes.calls import call
from axonkernel.escapes.scene import Scene
from axonkernel.escapes.tools import append, opened, read, write

__all__ = ["GROUP"]

GROUP = Group("files outside", "mount namespace", "fs")
_READ, _WRITE = "read {outside}/secret", "write {outside}/x"
_NOWHERE = -100  # AT_FDCWD
_FOLLOW, _EMPTY_PATH = 0x400, 0x1000
_EXCHANGE = 2
_FICLONE = 0x40049409


@GROUP("open by the absolute path", "loot", ask=_READ)
def read_by_path(scene: Scene) -> str:
    """A file that was not granted is read."""
    return read(f"{scene.outside}/secret")


@GROUP("open below /proc/self/root", "loot", ask=_READ)
def read_below_own_root(scene: Scene) -> str:
    """Another name of the root leads past the mounts."""
    return read(f"/proc/self/root{scene.outside}/secret")


@GROUP("open below /proc/1/root", "loot", ask=_READ)
def read_below_first_root(scene: Scene) -> str:
    """The root of the first process is the host's."""
    return read(f"/proc/{scene.first}/root{scene.outside}/secret")


@GROUP("open below /proc/PARENT/root", "loot", ask=_READ)
def read_below_parent_root(scene: Scene) -> str:
    """The root of the parent process is the host's."""
    return read(f"/proc/{os.getppid()}/root{scene.outside}/secret")


@GROUP("open below /proc/self/cwd/..", "loot", ask=_READ)
def read_below_cwd(scene: Scene) -> str:
    """The working directory's parents are the host's."""
    os.chdir(scene.project)
    return read(f"/proc/self/cwd/../{os.path.relpath(scene.outside, f'{scene.project}/..')}/secret")


@GROUP("openat from a granted folder upward", "loot", ask=_READ)
def read_upward_from_a_folder(scene: Scene) -> str:
    """A descriptor of a granted folder leads out of the grant."""
    folder = os.open(scene.project, os.O_RDONLY | os.O_DIRECTORY)
    above = os.path.relpath(scene.outside, scene.project)
    return read(os.open(f"{above}/secret", os.O_RDONLY, dir_fd=folder))


@GROUP("many .. from a descriptor of /", "loot", ask=_READ)
def read_above_the_root(scene: Scene) -> str:
    """The root has a parent."""
    root = os.open("/", os.O_PATH)
    return read(os.open("../" * 40 + scene.outside[1:] + "/secret", os.O_RDONLY, dir_fd=root))


@GROUP("a symlink in a write grant", "loot", ask=_READ)
def read_through_a_link(scene: Scene) -> str:
    """A link that the agent makes is followed out of the box."""
    link = f"{scene.project}/way-out"
    os.symlink(f"{scene.outside}/secret", link)
    return read(link)


@GROUP("link() into a write grant", "loot", ask=_READ)
def read_through_a_hard_link(scene: Scene) -> str:
    """A file that was not granted gets a name in a grant."""
    os.link(f"{scene.outside}/secret", f"{scene.project}/second-name")
    return read(f"{scene.project}/second-name")


@GROUP("link() from a descriptor, AT_EMPTY_PATH", "loot", ask=_READ)
def read_linked_descriptor(scene: Scene) -> str:
    """A file opened as a mere place gets a name in a grant."""
    place = os.open(f"{scene.outside}/secret", os.O_PATH)
    call("linkat", place, "", _NOWHERE, f"{scene.project}/third-name", _EMPTY_PATH)
    return read(f"{scene.project}/third-name")


@GROUP("rename() into a write grant", "mark", ask=_WRITE)
def move_in(scene: Scene) -> str:
    """A file that was not granted is moved into a grant."""
    os.rename(scene.mark("move-in"), f"{scene.project}/moved-in")
    return "moved"


@GROUP("rename() out of a write grant", "mark", ask=_WRITE)
def move_out(scene: Scene) -> str:
    """A file of the agent's replaces one that was not granted."""
    mine = write(f"{scene.project}/mine-to-move")
    os.rename(mine, scene.mark("move-out"))
    return "moved"


@GROUP("RENAME_EXCHANGE with a file outside", "mark", ask=_WRITE)
def exchange(scene: Scene) -> str:
    """A file of the agent's changes places with one that was not granted."""
    mine = write(f"{scene.project}/mine-to-exchange")
    call("renameat2", _NOWHERE, mine, _NOWHERE, scene.mark("exchange"), _EXCHANGE)
    return "exchanged"


@GROUP("list a folder outside", "loot", ask=_READ)
def list_outside(scene: Scene) -> str:
    """Names in a folder that was not granted are seen."""
    return "\n".join(os.listdir(scene.outside))


@GROUP("stat a file outside", "claim", ask=_READ)
def stat_outside(scene: Scene) -> str:
    """That a file exists which was not granted, and its size and times, are seen."""
    return str(os.stat(f"{scene.outside}/secret").st_size)


@GROUP("open the host's /etc/shadow", "claim", ask="read /etc/shadow")
def open_shadow(scene: Scene) -> str:
    """The machine's password hashes can be read. (It is opened, and not read.)"""
    return opened("/etc/shadow")


@GROUP("create a file", "mark", ask=_WRITE)
def create_file(scene: Scene) -> str:
    """A file is made where nothing was granted."""
    return write(scene.mark("create-file"))


@GROUP("append to a file", "mark", ask=_WRITE)
def append_to_file(scene: Scene) -> str:
    """A file that was not granted is changed."""
    return append(scene.mark("append-to-file"))


@GROUP("write through a symlink", "mark", ask=_WRITE)
def write_through_a_link(scene: Scene) -> str:
    """A link that the agent makes is written through."""
    os.symlink(scene.outside, f"{scene.project}/way-to-write")
    return write(f"{scene.project}/way-to-write/write-through-a-link")


@GROUP("make a folder", "mark", ask=_WRITE)
def make_folder(scene: Scene) -> str:
    """A folder is made where nothing was granted."""
    os.mkdir(scene.mark("make-folder"))
    return "made"


@GROUP("remove a file", "mark", ask=_WRITE)
def remove_file(scene: Scene) -> str:
    """A file that was not granted is removed."""
    os.unlink(scene.mark("remove-file"))
    return "removed"


@GROUP("truncate a file", "mark", ask=_WRITE)
def truncate_file(scene: Scene) -> str:
    """A file that was not granted is emptied."""
    os.truncate(scene.mark("truncate-file"), 0)
    return "emptied"


@GROUP("chmod a file", "mark", ask=_WRITE)
def change_mode(scene: Scene) -> str:
    """The rights of a file that was not granted are changed."""
    os.chmod(scene.mark("change-mode"), 0o600)
    return "changed"


@GROUP("change a file's times", "mark", ask=_WRITE)
def change_times(scene: Scene) -> str:
    """The times of a file that was not granted are changed: builds go by them."""
    os.utime(scene.mark("change-times"), (1, 1))
    return "changed"


@GROUP("set an extended attribute", "mark", ask=_WRITE)
def set_attribute(scene: Scene) -> str:
    """The attributes of a file that was not granted are changed."""
    os.setxattr(scene.mark("set-attribute"), "user.attempt", b"x")
    return "set"


@GROUP("make a fifo", "mark", ask=_WRITE)
def make_fifo(scene: Scene) -> str:
    """A pipe is made for a program outside to read from."""
    os.mkfifo(scene.mark("make-fifo"))
    return "made"


@GROUP("bind a unix socket", "mark", ask=_WRITE)
def make_socket(scene: Scene) -> str:
    """A service is offered to programs outside."""
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(scene.mark("make-socket"))
    return "made"


@GROUP("O_TMPFILE, then linkat to a path outside", "mark", ask=_WRITE)
def link_nameless_file(scene: Scene) -> str:
    """A file without a name gets one where nothing was granted."""
    nameless = os.open(scene.project, os.O_TMPFILE | os.O_WRONLY, 0o644)
    target = scene.mark("link-nameless-file")
    call("linkat", _NOWHERE, f"/proc/self/fd/{nameless}", _NOWHERE, target, _FOLLOW)
    return "linked"


@GROUP("FICLONE from a place outside", "loot", ask=_READ)
def clone_blocks(scene: Scene) -> str:
    """The blocks of a file that was not granted are shared into a grant."""
    source = os.open(f"{scene.outside}/secret", os.O_RDONLY)
    with open(f"{scene.project}/cloned", "w+b", buffering=0) as copy:
        fcntl.ioctl(copy, _FICLONE, source)
        return copy.read(4096).decode("latin-1")


@GROUP("write to a read grant", "mark", ask="write {granted}/x")
def write_read_only(scene: Scene) -> str:
    """What was granted to be read is written."""
    return append(f"{scene.granted}/write-read-only")


@GROUP("reopen a read grant's descriptor for writing", "mark", ask="write {granted}/x")
def reopen_for_writing(scene: Scene) -> str:
    """A descriptor for reading becomes one for writing."""
    file = os.open(f"{scene.granted}/reopen-for-writing", os.O_RDONLY)
    return append(f"/proc/self/fd/{file}")


@GROUP("link a read grant's file into a write grant", "mark", ask="write {granted}/x")
def link_to_write(scene: Scene) -> str:
    """A file to be read gets a name where one may write."""
    os.link(f"{scene.granted}/link-to-write", f"{scene.project}/to-write")
    return append(f"{scene.project}/to-write")


@GROUP("rename in a read grant", "mark", ask="write {granted}/x")
def rename_read_only(scene: Scene) -> str:
    """Names in a read grant are changed."""
    os.rename(f"{scene.granted}/rename-read-only", f"{scene.granted}/rename-read-only-2")
    return "renamed"


@GROUP("chmod in a read grant", "mark", ask="write {granted}/x")
def chmod_read_only(scene: Scene) -> str:
    """The rights of a file to be read are changed."""
    os.chmod(f"{scene.granted}/chmod-read-only", 0o777)
    return "changed"


@GROUP("change the times in a read grant", "mark", ask="write {granted}/x")
def touch_read_only(scene: Scene) -> str:
    """The times of a file to be read are changed."""
    os.utime(f"{scene.granted}/touch-read-only", (1, 1))
    return "changed"


@GROUP("leave files in the host's /tmp and /dev/shm", "mark")
def write_scratch(scene: Scene) -> str:
    """The agent leaves files where all users meet."""
    written = 0
    for folder in ("/tmp", "/var/tmp", "/dev/shm"):
        with contextlib.suppress(OSError):
            write(f"{folder}/{os.path.basename(scene.outside)}-write-scratch")
            written += 1
    if not written:
        raise Refused("nowhere")
    return "written"
