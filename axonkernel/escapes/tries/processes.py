"""Seeing, steering and ending processes of the host, and outliving the box."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import signal
import struct

from axonkernel.escapes.attempt import Group
from axonkernel.escapes.calls import call
from axonkernel.escapes.scene import Scene
from axonkernel.escapes.tools import glance, processes, read, secrets_in

__all__ = ["GROUP"]

GROUP = Group("processes", "pid namespace")
_SECCOMP = "seccomp filter"
_GET_PARENT, _GET_USER = 0xB702, 0xB701


def _victim(scene: Scene, name: str) -> int:
    return scene.victims[name]


@GROUP("list /proc", "loot")
def see_processes(scene: Scene) -> str:
    """The host's processes are seen, with their command lines."""
    return secrets_in(glance([f"/proc/{pid}/cmdline" for pid in processes()]))


@GROUP("kill()", "victim")
def kill(scene: Scene) -> str:
    """A process of the host is ended."""
    os.kill(_victim(scene, "kill"), signal.SIGKILL)
    return "killed"


@GROUP("kill() a process group", "victim")
def kill_group(scene: Scene) -> str:
    """A group of processes of the host is ended."""
    os.killpg(_victim(scene, "kill-group"), signal.SIGKILL)
    return "killed"


@GROUP("stop it with SIGSTOP", "victim")
def stop(scene: Scene) -> str:
    """A process of the host is stopped."""
    os.kill(_victim(scene, "stop"), signal.SIGSTOP)
    return "stopped"


@GROUP("tgkill()", "victim")
def kill_thread(scene: Scene) -> str:
    """A thread of a process of the host is ended."""
    victim = _victim(scene, "kill-thread")
    call(131 if os.uname().machine == "aarch64" else 234, victim, victim, 9)
    return "killed"


@GROUP("pidfd_open, pidfd_send_signal", "victim")
def kill_by_descriptor(scene: Scene) -> str:
    """A process of the host is ended through a descriptor."""
    victim = call("pidfd_open", _victim(scene, "kill-by-descriptor"), 0)
    call("pidfd_send_signal", victim, 9, None, 0)
    return "killed"


@GROUP("SIGIO from a descriptor's owner", "victim")
def kill_by_owner(scene: Scene) -> str:
    """The kernel signals a process of the host for the agent."""
    ours, theirs = os.pipe()
    fcntl.fcntl(ours, fcntl.F_SETOWN, _victim(scene, "kill-by-owner"))
    fcntl.fcntl(ours, 10, signal.SIGKILL)  # F_SETSIG
    fcntl.fcntl(ours, fcntl.F_SETFL, os.O_ASYNC)
    os.write(theirs, b"x")
    if fcntl.fcntl(ours, fcntl.F_GETOWN) == 0:
        raise ProcessLookupError(errno.ESRCH, "no such process")
    return "asked for"


@GROUP("kill the supervisor", "claim")
def kill_supervisor(scene: Scene) -> str:
    """Who holds the box can be signalled from inside. (By signal 0, which does nothing.)"""
    os.kill(scene.supervisor, 0)
    if _began(scene.supervisor) not in (scene.supervisor_began, ""):
        raise ProcessLookupError(errno.ESRCH, "the box has a process of that number")
    return "reached"


def _began(pid: int) -> str:
    """When a process was started, in the kernel's ticks; "" when that is not to be seen."""
    try:
        return read(f"/proc/{pid}/stat").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


@GROUP("ptrace: attach", "claim", wall=_SECCOMP)
def trace(scene: Scene) -> str:
    """A process of the host is controlled."""
    holder = scene.holder
    call("ptrace", 0x4206, holder, None, None)  # PTRACE_SEIZE
    call("ptrace", 0x4207, holder, None, None)  # PTRACE_INTERRUPT
    os.waitpid(holder, 0x40000000)
    call("ptrace", 17, holder, None, None)  # PTRACE_DETACH
    return "attached"


@GROUP("ptrace the first process of the box", "claim", wall=_SECCOMP)
def trace_first(scene: Scene) -> str:
    """What built the box is controlled, and what it still knows is read."""
    call("ptrace", 0x4206, scene.first, None, None)
    return "attached"


@GROUP("process_vm_readv", "loot", wall=_SECCOMP)
def read_memory(scene: Scene) -> str:
    """The memory of a process of the host is read."""
    data = ctypes.create_string_buffer(256)
    local = struct.pack("QQ", ctypes.addressof(data), 64)
    remote = struct.pack("QQ", scene.holder_address, 64)
    call("process_vm_readv", scene.holder, local, 1, remote, 1, 0)
    return data.raw.decode("latin-1")


@GROUP("process_vm_writev", "claim", wall=_SECCOMP)
def write_memory(scene: Scene) -> str:
    """The memory of a process of the host is changed. (By the byte that is there.)"""
    local = struct.pack("QQ", ctypes.addressof(ctypes.create_string_buffer(b"m")), 0)
    remote = struct.pack("QQ", scene.holder_address, 0)
    call("process_vm_writev", scene.holder, local, 1, remote, 1, 0)
    os.stat(f"/proc/{scene.holder}")
    return "reached"


@GROUP("/proc/PID/mem", "loot")
def read_memory_file(scene: Scene) -> str:
    """The memory of a process of the host is read as a file."""
    with open(f"/proc/{scene.holder}/mem", "rb", buffering=0) as memory:
        memory.seek(scene.holder_address)
        return memory.read(64).decode("latin-1")


@GROUP("/proc/PID/fd", "loot")
def read_descriptors(scene: Scene) -> str:
    """What a process of the host has open is opened again."""
    folder = f"/proc/{scene.holder}/fd"
    return glance([f"{folder}/{name}" for name in os.listdir(folder) if int(name) > 2])


@GROUP("/proc/PID/root and /proc/PID/cwd", "loot")
def read_by_root(scene: Scene) -> str:
    """The tree of a process of the host is walked."""
    places = [f"/proc/{scene.holder}/cwd/secret", f"/proc/{scene.holder}/root"]
    return glance([places[0], f"{places[1]}{scene.outside}/secret"])


@GROUP("pidfd_getfd", "loot", wall=_SECCOMP)
def take_descriptor(scene: Scene) -> str:
    """A descriptor is taken out of a process of the host."""
    victim = call("pidfd_open", scene.holder, 0)
    found = []
    for number in range(3, 10):
        try:
            found.append(read(call("pidfd_getfd", victim, number, 0)))
        except OSError as error:
            last = error
    if not found:
        raise last
    return "\n".join(found)


@GROUP("kcmp", "claim", wall=_SECCOMP)
def compare(scene: Scene) -> str:
    """Pointers of the kernel are compared between processes."""
    call("kcmp", scene.holder, scene.holder, 1, 0, 0)
    return "compared"


@GROUP("setpriority of another", "victim")
def slow_down(scene: Scene) -> str:
    """A process of the host is starved."""
    os.setpriority(os.PRIO_PROCESS, _victim(scene, "slow-down"), 19)
    return "slowed"


@GROUP("sched_setaffinity of another", "claim")
def pin(scene: Scene) -> str:
    """A process of the host is moved to a processor of the agent's choice."""
    os.sched_setaffinity(scene.holder, os.sched_getaffinity(scene.holder))
    return "pinned"


@GROUP("prlimit of another", "victim")
def limit(scene: Scene) -> str:
    """A process of the host is refused files and memory."""
    import resource

    resource.prlimit(_victim(scene, "limit"), resource.RLIMIT_NOFILE, (64, 64))
    return "limited"


@GROUP("ioprio_set of another", "claim")
def slow_disk(scene: Scene) -> str:
    """A process of the host is starved of its disk."""
    call("ioprio_set", 1, scene.holder, 2 << 13 | 4)
    return "set"


@GROUP("move_pages of another", "claim")
def move_pages(scene: Scene) -> str:
    """Where the memory of a process of the host lies is seen and changed."""
    call("move_pages", scene.holder, 0, None, None, None, 0)
    return "reached"


@GROUP("process_madvise of another", "claim")
def page_out(scene: Scene) -> str:
    """The memory of a process of the host is paged out."""
    victim = call("pidfd_open", scene.holder, 0)
    vector = struct.pack("QQ", scene.holder_address & ~4095, 4096)
    call("process_madvise", victim, vector, 1, 20, 0)  # MADV_COLD
    return "advised"


@GROUP("setns to the first process's namespaces", "claim", wall=_SECCOMP)
def enter_first(scene: Scene) -> str:
    """The agent joins namespaces it was kept out of."""
    with open(f"/proc/{scene.first}/ns/net") as net:
        call("setns", net.fileno(), 0)
    return "entered"


@GROUP("setns to a host process by pidfd", "claim", wall=_SECCOMP)
def enter_by_descriptor(scene: Scene) -> str:
    """The agent joins the namespaces of a process of the host."""
    holder = call("pidfd_open", scene.holder, 0)
    call("setns", holder, 0x40000000 | 0x20000)
    return "entered"


@GROUP("the parent user namespace, by ioctl", "claim")
def find_parent_namespace(scene: Scene) -> str:
    """The namespace that owns the box is got hold of."""
    name = "/proc/self/ns/net" if scene.boxed else "/proc/self/ns/mnt"
    with open(name) as own:
        owner = fcntl.ioctl(own, _GET_USER)
    with open(f"/proc/self/fd/{owner}") as user:
        if scene.boxed:
            call("setns", user.fileno(), 0x10000000)
    return "got hold of"


@GROUP("a System V segment of the host", "loot", wall="ipc namespace")
def attach_segment(scene: Scene) -> str:
    """Memory that programs of the host share is read."""
    segment = call("shmget", scene.shared_memory, 0, 0)
    return ctypes.string_at(call("shmat", segment, None, 0o10000), 64).decode("latin-1")


@GROUP("a POSIX message queue of the host", "loot", wall="ipc namespace")
def read_queue(scene: Scene) -> str:
    """Messages between programs of the host are read."""
    queue = call("mq_open", scene.queue, os.O_RDONLY | os.O_NONBLOCK, 0, None)
    data = ctypes.create_string_buffer(8192)
    call("mq_timedreceive", queue, data, 8192, None, None)
    return data.value.decode("latin-1")


@GROUP("/dev/shm of the host", "loot", wall="private /dev")
def read_shared_files(scene: Scene) -> str:
    """Memory that programs of the host share is read."""
    return glance([f"/dev/shm/{name}" for name in os.listdir("/dev/shm")])


@GROUP("its own out-of-memory score", "claim", wall="no capability")
def be_immune(scene: Scene) -> str:
    """When memory runs out, the kernel ends others instead of the agent."""
    with open("/proc/self/oom_score_adj", "w") as score:
        score.write("-1000")
    return "written"


@GROUP("real-time scheduling", "claim", wall="no capability")
def outrun(scene: Scene) -> str:
    """The agent runs before everything else on the machine."""
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    return "scheduled"


@GROUP("a negative nice value", "claim", wall="no capability")
def be_preferred(scene: Scene) -> str:
    """The agent runs before other programs."""
    os.setpriority(os.PRIO_PROCESS, 0, -5)
    return "preferred"
