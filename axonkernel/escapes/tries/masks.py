"""Reading and changing what fs.deny takes out of a write grant."""

from __future__ import annotations

import os

from axonkernel.escapes.attempt import Group
from axonkernel.escapes.calls import call
from axonkernel.escapes.scene import Scene
from axonkernel.escapes.tools import any_of, read, remount_flags, write

__all__ = ["GROUP"]

GROUP = Group("denied files", "mask", "fs")
_READ, _WRITE = "read {project}/denied", "write {project}/denied"
_NOWHERE = -100
_EXCHANGE, _DETACH = 2, 2
_RDONLY, _REMOUNT, _BIND = 1, 32, 4096


def _denied(scene: Scene) -> str:
    return f"{scene.project}/denied"


@GROUP("open it", "loot", ask=_READ)
def read_denied(scene: Scene) -> str:
    """A denied file inside a grant is read."""
    return read(_denied(scene))


@GROUP("open it below /proc/self/root", "loot", ask=_READ)
def read_denied_by_root(scene: Scene) -> str:
    """Another spelling of its path is not denied."""
    return read(f"/proc/self/root{_denied(scene)}")


@GROUP("open it below /proc/self/cwd", "loot", ask=_READ)
def read_denied_by_cwd(scene: Scene) -> str:
    """Another spelling of its path is not denied."""
    os.chdir(scene.project)
    return read("/proc/self/cwd/./denied")


@GROUP("O_PATH, then reopen the descriptor", "loot", ask=_READ)
def read_denied_by_descriptor(scene: Scene) -> str:
    """A descriptor of the mere place opens the file."""
    place = os.open(_denied(scene), os.O_PATH)
    return read(f"/proc/self/fd/{place}")


@GROUP("link() it to another name", "loot", ask=_READ)
def read_denied_by_new_link(scene: Scene) -> str:
    """A denied file gets a name that is not denied."""
    os.link(_denied(scene), f"{scene.project}/new-name")
    return read(f"{scene.project}/new-name")


@GROUP("another hard link of before the start", "loot", ask=_READ)
def read_denied_by_old_link(scene: Scene) -> str:
    """The denied file is read by a name that it had already."""
    return read(f"{scene.project}/other-name")


@GROUP("a symlink of before the start", "loot", ask=_READ)
def read_denied_by_symlink(scene: Scene) -> str:
    """The denied file is read through a link that was there."""
    return read(f"{scene.project}/link-to-denied")


@GROUP("rename it to another name", "loot", ask=_READ)
def read_denied_by_rename(scene: Scene) -> str:
    """A denied file is moved to a name that is not denied."""
    os.rename(f"{scene.project}/denied-rename", f"{scene.project}/renamed")
    return read(f"{scene.project}/renamed")


@GROUP("RENAME_EXCHANGE with a file of one's own", "loot", ask=_READ)
def read_denied_by_exchange(scene: Scene) -> str:
    """A denied file changes places with another."""
    mine = write(f"{scene.project}/to-exchange")
    call("renameat2", _NOWHERE, mine, _NOWHERE, f"{scene.project}/denied-exchange", _EXCHANGE)
    return read(mine)


@GROUP("rename the folder above it", "loot", ask=_READ)
def read_denied_by_parent(scene: Scene) -> str:
    """A mask that lies on a path is left behind when a folder above moves."""
    os.rename(f"{scene.project}/sub", f"{scene.project}/moved-sub")
    return read(f"{scene.project}/moved-sub/denied")


@GROUP("move the folder above, make it anew, write", "mark", ask=_WRITE)
def write_denied_by_parent(scene: Scene) -> str:
    """A denied name is written in a folder that took its parent's place."""
    os.rename(f"{scene.project}/write-denied-by-parent", f"{scene.project}/moved-2")
    os.mkdir(f"{scene.project}/write-denied-by-parent")
    return write(f"{scene.project}/write-denied-by-parent/denied")


@GROUP("remove and make it anew", "mark", ask=_WRITE)
def replace_denied(scene: Scene) -> str:
    """A denied file is replaced: the host's programs read the agent's."""
    os.unlink(f"{scene.project}/replace-denied")
    return write(f"{scene.project}/replace-denied")


@GROUP("rename a file of one's own over it", "mark", ask=_WRITE)
def rename_over_denied(scene: Scene) -> str:
    """A denied file is replaced: the host's programs read the agent's."""
    mine = write(f"{scene.project}/to-rename-over")
    os.rename(mine, f"{scene.project}/rename-over-denied")
    return "replaced"


@GROUP("create a denied name that is not there", "mark", ask=_WRITE)
def create_denied(scene: Scene) -> str:
    """A denied name is made: the host's programs read the agent's."""
    return write(f"{scene.project}/create-denied")


@GROUP("create a name that a denied pattern covers", "mark", ask="write {project}/a.denied-glob")
def create_denied_by_pattern(scene: Scene) -> str:
    """A name is made that a pattern of fs.deny covers."""
    return write(f"{scene.project}/create-denied-by-pattern.denied-glob")


@GROUP("open a file that a denied pattern covers", "loot", ask=_READ)
def read_denied_by_pattern(scene: Scene) -> str:
    """A pattern of fs.deny does not hold for a file that was there."""
    return read(f"{scene.project}/keys/key.denied-glob")


@GROUP("chmod it first", "loot", ask=_READ)
def chmod_denied(scene: Scene) -> str:
    """The agent gives itself the right to read what masks the file."""
    os.chmod(_denied(scene), 0o644)
    return read(_denied(scene))


@GROUP("list a denied folder", "loot", ask="read {project}/denied-folder/x")
def list_denied(scene: Scene) -> str:
    """Names in a denied folder are seen."""
    return "\n".join(os.listdir(f"{scene.project}/denied-folder"))


@GROUP("open a file in a denied folder", "loot", ask="read {project}/denied-folder/x")
def read_in_denied(scene: Scene) -> str:
    """A file in a denied folder is read."""
    return read(f"{scene.project}/denied-folder/secret")


@GROUP("write into a denied folder", "mark", ask="write {project}/denied-folder/x")
def write_in_denied(scene: Scene) -> str:
    """A file in a denied folder is made."""
    return write(f"{scene.project}/denied-folder/write-in-denied")


@GROUP("umount the mask", "loot", control="masked", ask=_READ)
def unmount_mask(scene: Scene) -> str:
    """The agent takes off what lies on a denied file."""
    call("umount2", _denied(scene), 0)
    return read(_denied(scene))


@GROUP("umount the mask, detached", "loot", control="masked", ask=_READ)
def detach_mask(scene: Scene) -> str:
    """The agent takes off what lies on a denied file."""
    call("umount2", _denied(scene), _DETACH)
    return read(_denied(scene))


@GROUP("move the mask elsewhere", "loot", control="masked", ask=_READ)
def move_mask(scene: Scene) -> str:
    """The agent moves away what lies on a denied file."""
    target = write(f"{scene.project}/for-the-mask")
    any_of(
        lambda: str(call("mount", _denied(scene), target, None, 8192, None)),  # MS_MOVE
        lambda: str(call("move_mount", _NOWHERE, _denied(scene), _NOWHERE, target, 0)),
    )
    return read(_denied(scene))


@GROUP("bind the folder elsewhere, without its masks", "loot", control="masked", ask=_READ)
def bind_around_mask(scene: Scene) -> str:
    """Another view of the folder has no mask."""
    os.mkdir(f"{scene.project}/view")
    call("mount", scene.project, f"{scene.project}/view", None, _BIND, None)
    return read(f"{scene.project}/view/denied")


@GROUP("open_tree a copy without its masks", "loot", control="masked", ask=_READ)
def clone_around_mask(scene: Scene) -> str:
    """A detached view of the folder has no mask."""
    tree = call("open_tree", _NOWHERE, scene.project, 1)  # OPEN_TREE_CLONE
    return read(os.open("denied", os.O_RDONLY, dir_fd=tree))


@GROUP("remount a read grant writable", "mark", control="masked", ask="write {granted}/x")
def remount_writable(scene: Scene) -> str:
    """The agent makes a read grant writable."""
    flags = _REMOUNT | _BIND | remount_flags(scene.granted)
    call("mount", None, scene.granted, None, flags, None)
    return write(f"{scene.granted}/remount-writable")


@GROUP("mount_setattr a read grant writable", "mark", control="masked", ask="write {granted}/x")
def clear_read_only(scene: Scene) -> str:
    """The agent makes a read grant writable by the new interface."""
    clear = bytes(8) + _RDONLY.to_bytes(8, "little") + bytes(16)
    call("mount_setattr", _NOWHERE, scene.granted, 0, clear, len(clear))
    return write(f"{scene.granted}/clear-read-only")
