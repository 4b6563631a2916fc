"""Changing the file tree itself, and reaching files and devices by other ways than a path."""

from __future__ import annotations

import ctypes
import errno
import os
import struct

from axonkernel.escapes.attempt import Group
from axonkernel.escapes.calls import call, reaches
from axonkernel.escapes.scene import Scene
from axonkernel.escapes.tools import any_of, opened, read

__all__ = ["GROUP"]

GROUP = Group("mounts and devices", "seccomp filter", "seccomp")
_NOWHERE = -100
_BIND, _REC, _PRIVATE, _REMOUNT, _DETACH = 4096, 16384, 1 << 18, 32, 2
_NO_PRIVILEGE = "no capability"


def _mounted(scene: Scene, kind: str, data: str | None = None) -> str:
    place = f"{scene.project}/mount-{kind}"
    os.mkdir(place)
    call("mount", kind, place, kind, 0, data)
    found = os.listdir(place)
    call("umount2", place, _DETACH)
    return f"{kind} mounted, with {len(found)} names"


@GROUP("mount a tmpfs", "claim", control="namespace", ask="userns")
def mount_tmpfs(scene: Scene) -> str:
    """The agent changes the tree: what lies beneath, masks included, is its to arrange."""
    return _mounted(scene, "tmpfs")


@GROUP("mount a proc file system", "claim", control="namespace", ask="userns")
def mount_proc(scene: Scene) -> str:
    """Another /proc has what the box's own leaves out."""
    return _mounted(scene, "proc")


@GROUP("mount a sysfs", "claim", control="namespace", ask="userns")
def mount_sysfs(scene: Scene) -> str:
    """The kernel's objects and switches are there."""
    return _mounted(scene, "sysfs")


@GROUP("mount an overlay", "claim", control="namespace", ask="userns")
def mount_overlay(scene: Scene) -> str:
    """A file system with many past holes is in reach."""
    scratch = "/tmp" if scene.boxed else scene.project
    for name in ("lower", "upper", "work"):
        os.mkdir(f"{scratch}/overlay-{name}")
    data = ",".join(f"{name}dir={scratch}/overlay-{name}" for name in ("lower", "upper", "work"))
    return _mounted(scene, "overlay", data)


@GROUP("bind / onto a folder of one's own", "claim", control="namespace", ask="userns")
def bind_root(scene: Scene) -> str:
    """A second view of the tree, without what lies on top of the first."""
    place = f"{scene.project}/bind-root"
    os.mkdir(place)
    call("mount", "/", place, None, _BIND | _REC, None)
    return "bound"


@GROUP("remount / writable", "claim", control="namespace", ask="userns")
def remount_root(scene: Scene) -> str:
    """The read-only tree of the box is written."""
    call("mount", None, "/", None, _REMOUNT | _BIND, None)
    return "remounted"


@GROUP("make mounts spread to the host", "claim", control="namespace", ask="userns")
def share_mounts(scene: Scene) -> str:
    """Mounts of the box appear outside."""
    call("mount", None, "/", None, _REC | (1 << 20), None)
    return "shared"


@GROUP("umount /proc and look beneath", "claim", control="namespace", ask="userns")
def unmount_proc(scene: Scene) -> str:
    """What the box replaced comes to light."""
    if not scene.boxed:  # what lies on the host's own places is not this namespace's
        call("umount2", _own_tmpfs(scene, "to-unmount"), _DETACH)
        return "unmounted"
    any_of(
        lambda: str(call("umount2", "/proc", _DETACH)),
        lambda: str(call("umount2", "/tmp", _DETACH)),
        lambda: str(call("umount2", "/", _DETACH)),
    )
    return "unmounted"


@GROUP("fsopen, fsconfig, fsmount, move_mount", "claim", control="namespace", ask="userns")
def new_mount_interface(scene: Scene) -> str:
    """The newer calls mount what the older may not."""
    made = call("fsopen", "tmpfs", 0)
    call("fsconfig", made, 6, None, None, 0)
    mounted = call("fsmount", made, 0, 0)
    call("move_mount", mounted, "", _NOWHERE, scene.project, 4)
    return "mounted"


@GROUP("open_tree a copy of /", "claim", control="namespace", ask="userns")
def clone_tree(scene: Scene) -> str:
    """A detached view of the tree can be changed."""
    call("open_tree", _NOWHERE, "/", 0x8001)  # OPEN_TREE_CLONE, AT_RECURSIVE
    return "cloned"


@GROUP("fspick the root", "claim", control="namespace", ask="userns")
def pick_root(scene: Scene) -> str:
    """The options of a mounted file system are changed."""
    place = scene.project if scene.boxed else _own_tmpfs(scene, "to-pick")
    call("fspick", _NOWHERE, place, 0)
    return "picked"


def _own_tmpfs(scene: Scene, name: str) -> str:
    place = f"{scene.project}/{name}"
    os.mkdir(place)
    call("mount", "tmpfs", place, "tmpfs", 0, None)
    return place


@GROUP("chroot, then climb out", "claim", control="namespace", ask="userns")
def change_root(scene: Scene) -> str:
    """A folder opened before a chroot leads out of it, and out of the box."""
    place = f"{scene.project}/new-root"
    os.mkdir(place)
    call("chroot", place)
    return "changed"


@GROUP("pivot_root", "claim", control="namespace", ask="userns")
def pivot(scene: Scene) -> str:
    """The agent makes another tree the root."""
    place = f"{scene.project}/pivot"
    os.mkdir(place)
    call("mount", None, "/", None, _REC | _PRIVATE, None)
    call("mount", "tmpfs", place, "tmpfs", 0, None)
    os.mkdir(f"{place}/old")
    call("pivot_root", place, f"{place}/old")
    return "pivoted"


@GROUP("new user and mount namespace, then mount", "claim", ask="userns")
def mount_in_own_namespace(scene: Scene) -> str:
    """A namespace of one's own gives the right to mount."""
    uid = os.getuid()
    call("unshare", 0x10020000)
    with open("/proc/self/uid_map", "w") as own:
        own.write(f"0 {uid} 1")
    call("mount", "tmpfs", scene.project, "tmpfs", 0, None)
    return "mounted"


@GROUP("open_by_handle_at with a handle", "loot", ask="read {outside}/secret")
def open_by_handle(scene: Scene) -> str:
    """A file is opened by its number, past every mount of the box."""
    handle = ctypes.create_string_buffer(struct.pack("Ii", 120, 0), 128)
    mount = ctypes.c_int()
    target = f"{scene.outside}/secret"
    try:
        call("name_to_handle_at", _NOWHERE, target, handle, ctypes.byref(mount), 0)
    except OSError:  # its name is out of reach: the number of the root's first inode, then
        call("name_to_handle_at", _NOWHERE, scene.project, handle, ctypes.byref(mount), 0)
    root = os.open(scene.project, os.O_RDONLY)
    file = call("open_by_handle_at", root, handle, os.O_RDONLY)
    return read(file) if os.path.isfile(f"/proc/self/fd/{file}") else "opened a folder"


@GROUP("fanotify on a whole mount", "claim", wall=_NO_PRIVILEGE)
def watch_mount(scene: Scene) -> str:
    """Every opening of a file on the file system is seen, with a descriptor of it."""
    group = call("fanotify_init", 0, os.O_RDONLY)
    call("fanotify_mark", group, 0x11, 0x20, _NOWHERE, scene.project)  # a mount, opens
    return "watched"


@GROUP("quotactl", "claim")
def set_quota(scene: Scene) -> str:
    """The host's quotas are changed."""
    quota_on = 0x800002 << 8
    answers = (errno.ENOENT, errno.ENODEV, errno.EINVAL, errno.ENOTBLK, errno.ESRCH)
    return reaches("quotactl", quota_on, "/dev/none", 0, None, answers=answers)


@GROUP("swapon a file", "claim")
def add_swap(scene: Scene) -> str:
    """The host's memory is swapped to a file of the agent's."""
    missing = f"{scene.project}/no-such-file"
    return reaches("swapon", missing, 0, answers=(errno.ENOENT, errno.EINVAL))


@GROUP("acct to a file", "claim")
def account(scene: Scene) -> str:
    """Every process of the host is written down for the agent."""
    return reaches("acct", f"{scene.project}/no-such-file", answers=(errno.ENOENT,))


@GROUP("mknod a disk and open it", "claim", wall=_NO_PRIVILEGE)
def make_disk(scene: Scene) -> str:
    """The host's disk is read block by block."""
    device = os.stat(scene.project).st_dev
    place = f"{scene.project}/disk"
    os.mknod(place, 0o60600, device if os.major(device) else os.makedev(8, 0))
    try:
        return opened(place)
    except OSError as error:
        if error.errno in (errno.ENXIO, errno.ENODEV, errno.ENOMEDIUM):
            return "made, without a disk behind it"
        raise


@GROUP("mknod the kernel's memory and open it", "claim", wall=_NO_PRIVILEGE)
def make_memory(scene: Scene) -> str:
    """The memory of the kernel is read."""
    place = f"{scene.project}/kmsg"
    os.mknod(place, 0o20600, os.makedev(1, 11))
    return opened(place)


def _device(path: str, flags: int = os.O_RDWR) -> None:
    name = os.path.basename(path)

    def do(scene: Scene) -> str:
        return opened(path, flags)

    GROUP.add(
        f"open-device-{name}",
        f"open {path}",
        f"The host's {path} can be used.",
        "claim",
        do,
        wall="private /dev",
        ask=f"unsafe {path}",
    )


for _path in ("/dev/mem", "/dev/kmsg", "/dev/kvm", "/dev/fuse", "/dev/net/tun", "/dev/vda"):
    _device(_path, os.O_RDONLY if _path in ("/dev/kmsg", "/dev/vda", "/dev/mem") else os.O_RDWR)


def _switch(id: str, path: str, meaning: str) -> None:
    """What steers the kernel: opened for writing, and nothing is written."""

    def do(scene: Scene) -> str:
        return opened(path, os.O_WRONLY)

    GROUP.add(id, f"write {path}", meaning, "claim", do, wall="mount namespace")


_switch("core-pattern", "/proc/sys/kernel/core_pattern",
        "A crash starts a program of the agent's outside the box, as root.")  # fmt: skip
_switch("module-loader", "/proc/sys/kernel/modprobe",
        "The kernel starts a program of the agent's outside the box, as root.")  # fmt: skip
_switch("sysrq", "/proc/sysrq-trigger", "The host is stopped or restarted.")
_switch("sysctl-vm", "/proc/sys/vm/overcommit_memory", "The host's memory is tuned.")
_switch("host-name", "/proc/sys/kernel/domainname", "The host's settings are changed.")
_switch("binfmt", "/proc/sys/fs/binfmt_misc/register",
        "A program of the agent's interprets those of others.")  # fmt: skip
_switch("kernel-switches", "/sys/kernel/mm/ksm/run",
        "The kernel's switches in /sys are turned.")  # fmt: skip
_switch("irq-affinity", "/proc/irq/default_smp_affinity", "The host's interrupts are steered.")


@GROUP("open /proc/kcore", "claim", wall="mount namespace")
def open_kcore(scene: Scene) -> str:
    """The whole memory of the host is read. (It is opened, and not read.)"""
    return opened("/proc/kcore")


@GROUP("read where the kernel lies: /proc/kallsyms", "claim", wall=_NO_PRIVILEGE)
def read_kernel_addresses(scene: Scene) -> str:
    """Addresses of the kernel ease an attack on it."""
    with open("/proc/kallsyms") as lines:
        if any(int(line.split()[0], 16) for _, line in zip(range(1000), lines, strict=False)):
            return "addresses"
    raise PermissionError(errno.EPERM, "zeros only")


@GROUP("move into a control group of the host", "claim", wall="mount namespace")
def join_control_group(scene: Scene) -> str:
    """The agent leaves the limits that hold it. (Opened, and nothing is written.)"""
    ways = []
    for root, _, names in os.walk("/sys/fs/cgroup"):
        if "cgroup.procs" in names:
            ways.append(f"{root}/cgroup.procs")
        if len(ways) >= 8:
            break
    if not ways:
        raise FileNotFoundError(errno.ENOENT, "no control group is there")
    return any_of(*(lambda path=path: opened(path, os.O_WRONLY) for path in ways))
