"""The seccomp filter for real: raw system calls inside bwrap, with it and without it.

The twin without the filter runs in the same box, also without capabilities, so a difference is
the filter's doing. Calls are made so that they do nothing even where they are let through.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pyseccomp  # its absence is a failure, never a skip: the filter is a wall
import pytest

from axonkernel.box import seccomp

pytestmark = [
    pytest.mark.box,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86_64 call numbers"),
]

AT_FDCWD = -100
FILE = "/dev/shm/file"
#: name, arguments, with the filter, without it (None: the kernel refuses by itself as well).
CALLS: list[tuple[str, list[Any], str, str | None]] = [
    ("ptrace", [0, 0, 0, 0], "EPERM", "ok"),
    ("process_vm_readv", [1, 0, 0, 0, 0, 0], "EPERM", "ok"),
    ("process_vm_writev", [1, 0, 0, 0, 0, 0], "EPERM", "ok"),
    ("pidfd_getfd", [-1, 0, 0], "EPERM", "EBADF"),
    ("io_uring_setup", [0, 0], "ENOSYS", "EFAULT"),
    ("io_uring_enter", [-1, 0, 0, 0, 0, 0], "ENOSYS", "EBADF"),
    ("io_uring_register", [-1, 0, 0, 0], "ENOSYS", "EINVAL"),
    ("userfaultfd", [-1], "EPERM", "EINVAL"),
    ("perf_event_open", [0, 0, 0, 0, 0], "EPERM", "EFAULT"),
    ("keyctl", [9999, 0, 0], "EPERM", "ENOTSUP"),
    ("add_key", [0, 0, 0, 0, 0], "EPERM", "EFAULT"),
    ("request_key", [0, 0, 0, 0], "EPERM", "EFAULT"),
    ("bpf", [0, 0, 0], "EPERM", None),
    ("mount", [0, 0, 0, 0, 0], "EPERM", None),
    ("umount2", ["/dev/shm", 0], "EPERM", None),
    ("pivot_root", ["/dev/shm", "/dev/shm"], "EPERM", None),
    ("setns", [-1, 0], "EPERM", "EBADF"),
    ("open_tree", [AT_FDCWD, "/dev/shm", 0], "ENOSYS", "ok"),
    ("mount_setattr", [-1, "", 0, 0, 0], "ENOSYS", "EINVAL"),
    ("fsopen", ["tmpfs", 0], "ENOSYS", "EPERM"),
    ("move_mount", [-1, "", -1, "", 0], "ENOSYS", "EPERM"),
    ("kexec_load", [0, 0, 0, 0], "EPERM", None),
    ("init_module", [0, 0, ""], "EPERM", None),
    ("finit_module", [-1, "", 0], "EPERM", None),
    ("swapon", ["/nonexistent", 0], "EPERM", None),
    ("reboot", [0, 0, 0, 0], "EPERM", None),
    ("open_by_handle_at", [-1, 0, 0], "EPERM", None),
    ("unshare", [0x10000000], "EPERM", "ok"),
    ("unshare", [0x400], "ok", "ok"),
    ("clone3", [0, 0], "ENOSYS", "EINVAL"),
    ("openat2", [AT_FDCWD, FILE, 0, 0], "ENOSYS", "EINVAL"),
    ("ioctl", [-1, 0x5412, 0], "EPERM", "EBADF"),
    ("ioctl", [-1, (7 << 32) | 0x5412, 0], "EPERM", "EBADF"),
    ("ioctl", [-1, 0x541C, 0], "EPERM", "EBADF"),
    ("ioctl", [-1, 0x5413, 0], "EBADF", "EBADF"),
    ("socket", [1, 1, 0], "ok", "ok"),
    ("socket", [2, 1, 0], "ok", "ok"),
    ("socket", [10, 2, 0], "ok", "ok"),
    ("socket", [16, 3, 0], "ok", "ok"),
    ("socket", [16, 3, 15], "EPROTONOSUPPORT", "ok"),
    ("socket", [17, 3, 0], "EAFNOSUPPORT", "EPERM"),
    ("socket", [40, 1, 0], "EAFNOSUPPORT", None),
    ("chmod", [FILE, 0o4755], "EPERM", "ok"),
    ("chmod", [FILE, 0o700], "ok", "ok"),
    ("fchmodat", [AT_FDCWD, FILE, 0o2755], "EPERM", "ok"),
    ("fchmodat2", [AT_FDCWD, FILE, 0o4755, 0], "EPERM", "ok"),
    ("open", ["a", 0o102, 0o4755], "EPERM", "ok"),
    ("openat", [AT_FDCWD, "b", 0o102, 0o2755], "EPERM", "ok"),
    ("openat", [AT_FDCWD, "c", 0o102, 0o755], "ok", "ok"),
    ("creat", ["d", 0o4755], "EPERM", "ok"),
    ("mknod", ["e", 0o104755, 0], "EPERM", "ok"),
    ("mknodat", [AT_FDCWD, "f", 0o102755, 0], "EPERM", "ok"),
]
X32_GETPID = 0x40000000 | 39
I386_GETPID = 20


def in_box(attempts: list[Any], code: bytes | None) -> dict[str, Any]:
    argv = [
        "bwrap",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--chdir",
        "/dev/shm",
    ]
    argv += ["--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc"]
    argv += ["--die-with-parent", "--new-session", "--cap-drop", "ALL"]
    script = Path(__file__).with_name("call_attempts.py").read_text()
    fds = ()
    if code is not None:
        fd = os.memfd_create("filter")
        os.write(fd, code)
        os.lseek(fd, 0, os.SEEK_SET)
        argv, fds = [*argv, "--seccomp", str(fd)], (fd,)
    done = subprocess.run(
        [*argv, sys.executable, "-ISc", script],
        input=json.dumps(attempts),
        capture_output=True,
        text=True,
        timeout=60,
        pass_fds=fds,
    )
    for fd in fds:
        os.close(fd)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def attempts() -> list[Any]:
    numbered = [["call", seccomp._number(pyseccomp, name), args] for name, args, *_ in CALLS]
    return [*numbered, ["call", X32_GETPID, []], ["i386", I386_GETPID]]


def compiled(nested: bool = False, unix: Literal["box", "none"] = "box") -> bytes:
    return seccomp.filter_bytes(nested_userns=nested, unix=unix)


@pytest.fixture(scope="module")
def filtered() -> dict[str, Any]:
    """Every attempt, with the filter."""
    return in_box(attempts(), compiled())


@pytest.fixture(scope="module")
def bare() -> dict[str, Any]:
    """The same attempts in the same box, without it."""
    return in_box(attempts(), None)


@pytest.mark.parametrize("at", range(len(CALLS)), ids=[f"{c[0]}{c[1]}" for c in CALLS])
def test_a_call_is_answered_as_the_rules_say(
    filtered: dict[str, Any], bare: dict[str, Any], at: int
) -> None:
    """The errno with the filter, and what the kernel alone would have said."""
    name, arguments, expected, twin = CALLS[at]
    assert filtered["answers"][at] == expected, (name, arguments)
    if twin is not None:
        assert bare["answers"][at] == twin, (name, arguments)


def test_no_set_id_file_is_left(filtered: dict[str, Any], bare: dict[str, Any]) -> None:
    """The side effect: no file with set-id bits exists after all the ways to make one."""
    assert filtered["modes"] == {"c": "0o755", "file": "0o700"}
    assert {"a", "b", "d", "e", "f"} <= set(bare["modes"])
    assert any(int(mode, 8) & 0o6000 for mode in bare["modes"].values())


def test_foreign_abis_are_killed(filtered: dict[str, Any], bare: dict[str, Any]) -> None:
    """x32 numbers and the 32-bit entry end the process by SIGSYS; without the filter the
    kernel answers them (or has no such ABI)."""
    assert filtered["answers"][-2:] == ["signal 31", "signal 31"]
    assert bare["answers"][-2] in ("ok", "ENOSYS")
    assert bare["answers"][-1] in ("ok", "failed", "signal 11")


def test_unix_none_and_nested_for_real() -> None:
    """The two settings: no unix socket but a stream pair; a new user namespace inside."""
    tries = [
        ["call", 41, [1, 1, 0]],  # socket
        ["call", 53, [1, 2, 0, 0]],  # socketpair, datagram
        ["call", 53, [1, 1, 0, 0]],  # socketpair, stream: past the filter, to a bad pointer
        ["call", 272, [0x10000000]],  # unshare
    ]
    assert in_box(tries, compiled(unix="none"))["answers"] == ["EPERM", "EPERM", "EFAULT", "EPERM"]
    assert in_box(tries, compiled(nested=True))["answers"] == ["ok", "EFAULT", "EFAULT", "ok"]


def test_ordinary_programs_do_not_notice() -> None:
    """Threads, child processes, sockets, temporary files and asyncio work under the filter."""
    script = """
import asyncio, subprocess, socket, tempfile, threading, multiprocessing
threading.Thread(target=print).start()
assert subprocess.run(["true"]).returncode == 0
assert multiprocessing.get_context("fork").Pool(2).map(abs, [-1, -2]) == [1, 2]
socket.socketpair()
tempfile.TemporaryFile().write(b"x")
async def main():
    process = await asyncio.create_subprocess_exec("true")
    assert await process.wait() == 0
asyncio.run(main())
"""
    fd = os.memfd_create("filter")
    os.write(fd, compiled(unix="none"))
    os.lseek(fd, 0, os.SEEK_SET)
    argv = [
        "bwrap",
        "--ro-bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--chdir",
        "/dev/shm",
    ]
    argv += ["--unshare-all", "--die-with-parent", "--seccomp", str(fd)]
    done = subprocess.run(
        [*argv, sys.executable, "-Ic", script],
        capture_output=True,
        text=True,
        timeout=60,
        pass_fds=(fd,),
    )
    os.close(fd)
    assert done.returncode == 0, done.stderr
