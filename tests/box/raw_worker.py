"""A handler that tries things by the C library alone, so that nothing of ours stands between.

A request is a list of attempts, each ``[NAME, ARGUMENTS...]`` with NAME one of the functions
below. The answer has ``ok`` or the name of the errno for each.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import socket
import struct
from typing import Any

LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.syscall.restype = ctypes.c_long
LIBC.shmat.restype = ctypes.c_void_p


def attempt(kernel: Any, request: list[list[Any]]) -> list[str]:
    """The handler."""
    return [tried(*each) for each in request]


def tried(name: str, *args: Any) -> str:
    try:
        globals()[f"try_{name}"](*args)
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, str(error))
    return "ok"


def call(function: Any, *args: Any) -> int:
    """Call into the C library; raises OSError for -1."""
    words = [arg.encode() if isinstance(arg, str) else arg for arg in args]
    result = function(*words)
    if result == -1:
        raise OSError(ctypes.get_errno(), function.__name__)
    return int(result)


def try_read(path: str) -> None:
    fd = call(LIBC.open, path, os.O_RDONLY)
    call(LIBC.read, fd, ctypes.create_string_buffer(8), 8)
    os.close(fd)


def try_openat(folder: str, name: str) -> None:
    place = call(LIBC.open, folder, os.O_PATH)
    os.close(call(LIBC.openat, place, name, os.O_RDONLY))


def try_list(path: str) -> None:
    os.close(call(LIBC.open, path, os.O_RDONLY | os.O_DIRECTORY))


def try_write(path: str) -> None:
    fd = call(LIBC.open, path, os.O_WRONLY)
    call(LIBC.write, fd, b"W", 1)
    os.close(fd)


def try_create(path: str) -> None:
    os.close(call(LIBC.open, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))


def try_truncate(path: str) -> None:
    call(LIBC.truncate, path, ctypes.c_long(0))


def try_mkdir(path: str) -> None:
    call(LIBC.mkdir, path, 0o755)


def try_unlink(path: str) -> None:
    call(LIBC.unlink, path)


def try_rename(old: str, new: str) -> None:
    call(LIBC.rename, old, new)


def try_link(old: str, new: str) -> None:
    call(LIBC.link, old, new)


def try_symlink(old: str, new: str) -> None:
    call(LIBC.symlink, old, new)


def try_mkfifo(path: str) -> None:
    call(LIBC.mkfifo, path, 0o644)


def try_chmod(path: str) -> None:
    call(LIBC.chmod, path, 0o600)


def try_chown(path: str) -> None:
    call(LIBC.chown, path, os.getuid(), os.getgid())


def try_utime(path: str) -> None:
    call(LIBC.utimensat, -100, path, (ctypes.c_long * 4)(1, 0, 1, 0), 0)


def try_setxattr(path: str) -> None:
    call(LIBC.setxattr, path, "user.axon", b"x", 1, 0)


def try_flags(path: str) -> None:
    """FS_IOC_SETFLAGS to what they are, on a descriptor that only reads."""
    fd = call(LIBC.open, path, os.O_RDONLY)
    flags = ctypes.c_int(0)
    call(LIBC.ioctl, fd, ctypes.c_ulong(0x80086601), ctypes.byref(flags))
    call(LIBC.ioctl, fd, ctypes.c_ulong(0x40086602), ctypes.byref(flags))
    os.close(fd)


def try_inotify(path: str) -> None:
    call(LIBC.inotify_add_watch, call(LIBC.inotify_init), path, 0x100)


def try_execute(*words: str) -> None:
    """execve in a child; the child's errno comes back as its exit code."""
    argv = (ctypes.c_char_p * (len(words) + 1))(*(word.encode() for word in words), None)
    pid = call(LIBC.fork)
    if pid == 0:
        LIBC.execve(words[0].encode(), argv, (ctypes.c_char_p * 1)(None))
        os._exit(ctypes.get_errno())
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(code, words[0])


def try_execute_memory(path: str) -> None:
    """Run a copy of a program that is a file in memory."""
    fd = call(LIBC.memfd_create, "copy", 0)
    with open(path, "rb") as file:
        os.write(fd, file.read())
    try_execute(f"/proc/self/fd/{fd}")


def try_tcp(port: int) -> None:
    _connect(socket.AF_INET, socket.SOCK_STREAM, port)


def try_tcp6(port: int) -> None:
    _connect(socket.AF_INET6, socket.SOCK_STREAM, port)


def try_udp(port: int) -> None:
    fd = _connect(socket.AF_INET, socket.SOCK_DGRAM, port, keep=True)
    call(LIBC.send, fd, b"u", 1, 0)
    os.close(fd)


def _connect(family: int, kind: int, port: int, *, keep: bool = False) -> int:
    fd = call(LIBC.socket, family, kind, 0)
    if family == socket.AF_INET:
        address = struct.pack("=H2s4s8x", family, port.to_bytes(2, "big"), bytes([127, 0, 0, 1]))
    else:
        loopback = bytes(15) + b"\1"
        address = struct.pack("=H2s4x16s4x", family, port.to_bytes(2, "big"), loopback)
    try:
        call(LIBC.connect, fd, address, len(address))
    finally:
        if not keep:
            os.close(fd)
    return fd


def try_bind(port: int) -> None:
    fd = call(LIBC.socket, socket.AF_INET, socket.SOCK_STREAM, 0)
    address = struct.pack("=H2s4s8x", socket.AF_INET, port.to_bytes(2, "big"), bytes(4))
    call(LIBC.bind, fd, address, len(address))
    os.close(fd)


def try_unix(path: str) -> None:
    """Connect to a socket by path, or by an abstract name that begins with @."""
    fd = call(LIBC.socket, socket.AF_UNIX, socket.SOCK_STREAM, 0)
    name = path.encode() if path[0] == "/" else b"\0" + path[1:].encode()
    address = struct.pack("=H", socket.AF_UNIX) + name
    call(LIBC.connect, fd, address, len(address))
    os.close(fd)


def try_datagram_pair(path: str) -> None:
    """Send to a socket by path, through one end of a pair."""
    pair = (ctypes.c_int * 2)()
    call(LIBC.socketpair, socket.AF_UNIX, socket.SOCK_DGRAM, 0, pair)
    address = struct.pack("=H", socket.AF_UNIX) + path.encode()
    call(LIBC.sendto, pair[0], b"d", 1, 0, address, len(address))


def try_socket(family: int, kind: int, protocol: int) -> None:
    os.close(call(LIBC.socket, family, kind, protocol))


def try_pair() -> None:
    pair = (ctypes.c_int * 2)()
    call(LIBC.socketpair, socket.AF_UNIX, socket.SOCK_STREAM, 0, pair)
    call(LIBC.write, pair[0], b"p", 1)
    for fd in pair:
        os.close(fd)


def try_kill(pid: int) -> None:
    call(LIBC.kill, pid, signal.SIGUSR1)


def try_pidfd_kill(pid: int) -> None:
    fd = call(LIBC.syscall, ctypes.c_long(434), pid, 0)
    call(LIBC.syscall, ctypes.c_long(424), fd, int(signal.SIGUSR1), None, 0)


def try_kill_child() -> None:
    pid = call(LIBC.fork)
    if pid == 0:
        signal.pause()
    call(LIBC.kill, pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def try_priority(pid: int) -> None:
    call(LIBC.setpriority, 0, pid, 5)


def try_trace(pid: int) -> None:
    call(LIBC.ptrace, 16, pid, None, None)
    os.waitpid(pid, 0)
    call(LIBC.ptrace, 17, pid, None, None)


def try_memory(pid: int) -> None:
    os.close(call(LIBC.open, f"/proc/{pid}/mem", os.O_RDONLY))


def try_shared(key: int) -> None:
    call(LIBC.shmget, key, 4096, 0)


def try_variable(name: str) -> None:
    """getenv(3) of the C library, which /proc/self/environ and children see as well."""
    LIBC.getenv.restype = ctypes.c_char_p
    if LIBC.getenv(name.encode()) is None:
        raise OSError(errno.ENOENT, name)


def try_child_variable(name: str) -> None:
    import subprocess

    subprocess.run(["/usr/bin/printenv", name], check=False)


def try_descriptors() -> None:
    """Nothing is open but sockets of the worker's own, /dev/null, and the look itself."""
    for fd in os.listdir("/proc/self/fd"):
        try:
            leads = os.readlink(f"/proc/self/fd/{fd}")
        except FileNotFoundError:
            continue  # the look itself
        if not leads.startswith(("socket:", "anon_inode:", "/dev/null", "/proc/")):
            raise OSError(errno.EBADF, leads)
