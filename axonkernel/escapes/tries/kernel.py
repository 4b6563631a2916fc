"""The kernel's rarely needed calls: each a way to more power, or a large surface for attacks."""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import struct

from axonkernel.escapes.attempt import Group, Refused
from axonkernel.escapes.calls import call, number, reaches
from axonkernel.escapes.scene import Scene
from axonkernel.escapes.tools import in_child, opened

__all__ = ["GROUP"]

GROUP = Group("kernel", "seccomp filter", "seccomp")


@GROUP("bpf: make a map", "claim")
def load_bpf(scene: Scene) -> str:
    """Code of the agent's runs in the kernel."""
    attributes = struct.pack("IIII", 2, 4, 4, 1) + bytes(56)
    call("bpf", 0, attributes, len(attributes))
    return "made"


@GROUP("perf_event_open", "claim")
def measure(scene: Scene) -> str:
    """The kernel and other processes are measured."""
    attributes = struct.pack("IIQ", 1, 112, 0) + bytes(96)
    call("perf_event_open", attributes, 0, -1, -1, 0)
    return "measured"


@GROUP("userfaultfd", "claim")
def stop_kernel(scene: Scene) -> str:
    """The kernel is stopped at a chosen moment, which eases attacks on it."""
    try:
        call("userfaultfd", 0)
    except OSError:
        opened("/dev/userfaultfd", os.O_RDWR)
    return "opened"


@GROUP("io_uring_setup", "claim")
def use_ring(scene: Scene) -> str:
    """Files and sockets are used by calls that no filter sees."""
    call("io_uring_setup", 1, ctypes.create_string_buffer(120))
    return "made"


@GROUP("the session keyring", "claim")
def use_keyring(scene: Scene) -> str:
    """Keys of the user's session are reached: keyrings know no namespaces."""
    call("keyctl", 0, -3, 1)
    return "reached"


@GROUP("add_key", "claim")
def add_key(scene: Scene) -> str:
    """A key is left in the user's keyring. (In the process's own.)"""
    call("add_key", "user", "attempt", b"x", 1, -2)
    return "added"


@GROUP("request_key", "claim")
def request_key(scene: Scene) -> str:
    """The kernel starts a helper outside the box, as root, to get a key."""
    return reaches("request_key", "user", "no-such-key", None, 0, answers=(errno.ENOKEY,))


@GROUP("kexec_load", "claim")
def load_kernel(scene: Scene) -> str:
    """Another kernel is started."""
    return reaches("kexec_load", 0, 1 << 20, None, 0, answers=(errno.EINVAL, errno.EBUSY))


@GROUP("kexec_file_load", "claim")
def load_kernel_file(scene: Scene) -> str:
    """Another kernel is started."""
    answers = (errno.EBADF, errno.EINVAL, errno.ENOEXEC)
    return reaches("kexec_file_load", -1, -1, 0, None, 0, answers=answers)


@GROUP("reboot, with a wrong number", "claim")
def restart(scene: Scene) -> str:
    """The host is stopped."""
    return reaches("reboot", 1, 2, 3, None, answers=(errno.EINVAL,))


@GROUP("init_module", "claim")
def load_module(scene: Scene) -> str:
    """Code of the agent's becomes part of the kernel."""
    return reaches("init_module", b"no", 2, b"", answers=(errno.ENOEXEC, errno.EFAULT))


@GROUP("finit_module", "claim")
def load_module_file(scene: Scene) -> str:
    """Code of the agent's becomes part of the kernel."""
    answers = (errno.EBADF, errno.ENOEXEC, errno.EINVAL)
    return reaches("finit_module", -1, b"", 0, answers=answers)


@GROUP("delete_module", "claim")
def unload_module(scene: Scene) -> str:
    """A part of the kernel is taken out."""
    return reaches("delete_module", "no_such_module", 0, answers=(errno.ENOENT,))


@GROUP("swapoff", "claim")
def end_swap(scene: Scene) -> str:
    """The host is made to run out of memory."""
    missing = f"{scene.project}/no-such-file"
    return reaches("swapoff", missing, answers=(errno.ENOENT, errno.EINVAL))


@GROUP("iopl", "claim")
def use_ports(scene: Scene) -> str:
    """The hardware is spoken to directly."""
    return in_child(lambda: call("iopl", 3))


@GROUP("ioperm", "claim")
def use_some_ports(scene: Scene) -> str:
    """The hardware is spoken to directly."""
    return in_child(lambda: call("ioperm", 0x80, 1, 1))


@GROUP("syslog: the kernel's messages", "claim")
def read_kernel_log(scene: Scene) -> str:
    """What the kernel tells of the host is read."""
    call("syslog", 3, ctypes.create_string_buffer(256), 256)
    return "read"


@GROUP("openat2", "claim")
def open_newly(scene: Scene) -> str:
    """Modes that the filter cannot see: a set-id bit could be among them."""
    how = struct.pack("QQQ", os.O_CREAT | os.O_RDWR, 0o4755, 0)
    call("openat2", -100, f"{scene.project}/open-newly", how, 24)
    return "opened"


@GROUP("the 32-bit entry, int 0x80", "claim")
def old_entry(scene: Scene) -> str:
    """Calls come in by a door where the filter counts otherwise."""
    if os.uname().machine != "x86_64":
        raise Refused("x86-64 only")
    page = mmap.mmap(-1, mmap.PAGESIZE, prot=7)
    page.write(b"\xb8" + (20).to_bytes(4, "little") + b"\xcd\x80\xc3")  # getpid
    run = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    if run() <= 0:
        raise Refused("no such call")
    return "answered"


@GROUP("the x32 numbers", "claim")
def x32_entry(scene: Scene) -> str:
    """Calls come in by numbers that the filter does not know."""
    if os.uname().machine != "x86_64":
        raise Refused("x86-64 only")
    call(0x40000000 | 39)
    return "answered"


@GROUP("a number that no kernel had yet", "claim")
def unknown_call(scene: Scene) -> str:
    """Calls of newer kernels are let through unjudged."""
    call(470)
    return "answered"


@GROUP("a filter of one's own that lets all through", "claim")
def override_filter(scene: Scene) -> str:
    """A second filter takes the place of the first."""
    allow = struct.pack("HBBI", 6, 0, 0, 0x7FFF0000)
    code = ctypes.create_string_buffer(allow, 8)
    program = struct.pack("HxxxxxxQ", 1, ctypes.addressof(code))

    def do() -> None:
        call("prctl", 38, 1, 0, 0, 0)  # no new privileges
        call("seccomp", 1, 0, program)
        call("unshare", 0x10000000)

    return in_child(do)


@GROUP("a filter whose verdicts are one's own", "claim")
def listen_to_filter(scene: Scene) -> str:
    """A listener says yes to calls that the box's filter refuses."""
    notify = struct.pack("HBBI", 0x20, 0, 0, 0) + struct.pack("HBBI", 0x15, 0, 1, number("bpf"))
    notify += struct.pack("HBBI", 6, 0, 0, 0x7FC00000) + struct.pack("HBBI", 6, 0, 0, 0x7FFF0000)
    code = ctypes.create_string_buffer(notify, len(notify))
    program = struct.pack("HxxxxxxQ", 4, ctypes.addressof(code))

    def do() -> None:
        call("prctl", 38, 1, 0, 0, 0)
        call("seccomp", 1, 8, program)  # SECCOMP_FILTER_FLAG_NEW_LISTENER
        call("unshare", 0x10000000)

    return in_child(do)


@GROUP("turn the filter off by prctl", "claim")
def drop_filter(scene: Scene) -> str:
    """The filter is gone."""

    def do() -> None:
        if scene.boxed:
            call("prctl", 22, 0, 0, 0, 0)  # PR_SET_SECCOMP: disabled
        call("unshare", 0x10000000)

    return in_child(do)


def _unshares() -> None:
    kinds = {"user": 0x10000000, "mount": 0x20000, "network": 0x40000000, "pid": 0x20000000,
             "ipc": 0x8000000, "uts": 0x4000000, "cgroup": 0x2000000, "time": 0x80}  # fmt: skip
    for kind, flag in kinds.items():

        def do(scene: Scene, flag: int = flag) -> str:
            return in_child(lambda: call("unshare", flag))

        GROUP.add(
            f"unshare-{kind}",
            f"unshare a {kind} namespace",
            "A namespace of its own gives the agent capabilities, and more of the kernel.",
            "claim",
            do,
            control="plain" if kind == "user" else "namespace",
            ask="userns",
        )


_unshares()


def _cloned(child: int) -> str:
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    return "cloned"


@GROUP("clone a process into a user namespace", "claim", ask="userns")
def clone_user(scene: Scene) -> str:
    """A namespace of its own gives the agent capabilities, and more of the kernel."""
    return _cloned(call("clone", 0x10000000 | 17, None, None, None, None))


@GROUP("clone3 into a user namespace", "claim", ask="userns")
def clone3_user(scene: Scene) -> str:
    """The flags lie behind a pointer, where no filter looks."""
    arguments = struct.pack("QQQQQQQQ", 0x10000000, 0, 0, 0, 17, 0, 0, 0)
    return _cloned(call("clone3", arguments, 64))


@GROUP("TIOCSTI on a terminal", "claim")
def type_into_terminal(scene: Scene) -> str:
    """The agent types commands into the terminal of the user."""
    import fcntl
    import pty

    _, theirs = pty.openpty()
    if os.fork() == 0:
        os.setsid()
        try:
            fcntl.ioctl(theirs, 0x540E, 0)  # the controlling terminal
            fcntl.ioctl(theirs, 0x5412, b"x")
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 255)
    _, status = os.wait()
    if code := os.waitstatus_to_exitcode(status):
        raise OSError(code, os.strerror(code))
    return "typed"
