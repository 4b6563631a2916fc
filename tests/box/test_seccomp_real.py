"""The seccomp filter for real: raw system calls inside bwrap, with it and without it.

The twin without the filter runs in the same box, also without capabilities, so a difference is
the filter's doing. Calls are made so that they do nothing even where they are let through.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any, Literal

import pyseccomp  # its absence is a failure, never a skip: the filter is a wall
import pytest

from axonkernel.box import seccomp
from axonkernel.box.syscalls import RULES
from box.filtered import run_in_box

pytestmark = [
    pytest.mark.box,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="x86_64 call numbers"),
]

AT_FDCWD = -100
FILE = "/dev/shm/file"
#: mount, cgroup, uts, ipc, user, pid, net
NAMESPACES = (
    0x00020000, 0x02000000, 0x04000000, 0x08000000, 0x10000000, 0x20000000, 0x40000000,
)  # fmt: skip
X32_BIT = 0x40000000
ODD_FAMILIES = (*range(3, 10), *range(11, 16), *range(17, 47))
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
    ("fchmod", [-1, 0o4755], "EPERM", "EBADF"),
    ("open", [".", 0o20200002, 0o4755], "EPERM", "ok"),
    ("openat", [AT_FDCWD, ".", 0o20200002, 0o2755], "EPERM", "ok"),
    ("kcmp", [1, 1, 99, 0, 0], "EPERM", "EINVAL"),
    ("fsconfig", [-1, 0, 0, 0, 0], "ENOSYS", "EINVAL"),
    ("fsmount", [-1, 0, 0], "ENOSYS", "EPERM"),
    ("fspick", [AT_FDCWD, "/", 0], "ENOSYS", "EPERM"),
    ("open_tree_attr", [AT_FDCWD, "/", 0, 0, 1], "ENOSYS", "EINVAL"),
    ("swapoff", ["/nonexistent"], "EPERM", None),
    ("acct", [0], "EPERM", None),
    ("quotactl", [0, "/nonexistent", 0, 0], "EPERM", "ENOENT"),
    ("quotactl_fd", [-1, 0, 0, 0], "EPERM", "EBADF"),
    ("iopl", [9], "EPERM", None),
    ("ioperm", [0x10000, 1, 0], "EPERM", None),
    ("syslog", [99, 0, 0], "EPERM", None),
    ("kexec_file_load", [-1, -1, 0, "", 0], "EPERM", None),
    ("delete_module", ["", 0], "EPERM", None),
    ("chroot", ["/dev/shm"], "EPERM", None),
    ("socketpair", [0, 1, 0, 0], "EAFNOSUPPORT", None),
    ("socketpair", [40, 1, 0, 0], "EAFNOSUPPORT", None),
    # A thread that shares no signal handlers: refused by the kernel, whatever the namespaces.
    *(("clone", [flag | 0x10000, 0, 0, 0, 0], "EPERM", "EINVAL") for flag in NAMESPACES),
    ("clone", [0x10000, 0, 0, 0, 0], "EINVAL", "EINVAL"),
    *(("unshare", [flag], "EPERM", None) for flag in (*NAMESPACES, 0x80)),
    *(("socket", [family, 2, 0], "EAFNOSUPPORT", None) for family in ODD_FAMILIES),
]


def in_box(attempts: list[Any], code: bytes | None) -> dict[str, Any]:
    script = Path(__file__).with_name("call_attempts.py").read_text()
    answer: dict[str, Any] = json.loads(
        run_in_box([sys.executable, "-ISc", script], code, json.dumps(attempts))
    )
    return answer


def attempts() -> list[Any]:
    return [["call", seccomp._number(pyseccomp, name), args] for name, args, *_ in CALLS]


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


#: What is denied where no box keeps other processes apart, and its twin about oneself.
UNBOXED: list[tuple[str, list[Any], list[Any] | None]] = [
    ("prlimit64", [1, 7, 0, 0], [0, 7, 0, 0]),
    ("sched_setaffinity", [1, 0, 0], [0, 0, 0]),
    ("sched_setscheduler", [1, 0, 0], [0, 0, 0]),
    ("sched_setparam", [1, 0], [0, 0]),
    ("sched_setattr", [1, 0, 0], [0, 0, 0]),
    ("setpriority", [0, 1, 0], [0, 0, 0]),
    ("ioprio_set", [1, 1, 0], [1, 0, 0]),
    ("migrate_pages", [1, 0, 0, 0], [0, 0, 0, 0]),
    ("move_pages", [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0]),
    ("shmget", [1, 0, 0], None),
    ("shmat", [-1, 0, 0], None),
    ("semget", [1, 0, 0], None),
    ("semop", [-1, 0, 0], None),
    ("semtimedop", [-1, 0, 0, 0], None),
    ("msgget", [1, 0], None),
    ("msgsnd", [-1, 0, 0, 0], None),
    ("msgrcv", [-1, 0, 0, 0, 0], None),
]


def raw(calls: list[tuple[str, list[Any]]], code: bytes) -> list[str]:
    tries = [["call", seccomp._number(pyseccomp, name), args] for name, args in calls]
    answers: list[str] = in_box(tries, code)["answers"]
    return answers


def test_without_a_box_other_processes_are_left_alone() -> None:
    """Each call about another process, or about objects they share, is EPERM by the filter of
    a command without a box, and not about oneself, or in a box."""
    denied = [(name, args) for name, args, _ in UNBOXED]
    own = [(name, args) for name, _, args in UNBOXED if args is not None]
    unboxed = seccomp.filter_bytes(nested_userns=False, unix="none", boxed=False)
    assert raw(denied, unboxed) == ["EPERM"] * len(denied)
    assert "EPERM" not in raw(own, unboxed)
    assert "EPERM" not in raw([each for each in denied if each[0][:3] == "shm"], compiled())


def test_memory_files_cannot_be_executed_where_nothing_written_can() -> None:
    """``box.noexec``: only with the flag that keeps a memory file from being executed."""
    noexec = seccomp.filter_bytes(nested_userns=False, unix="box", noexec=True)
    tries: list[tuple[str, list[Any]]] = [("memfd_create", ["x", 0]), ("memfd_create", ["x", 8])]
    assert raw(tries, compiled()) == ["ok", "ok"]
    assert raw(tries, noexec)[0] != "ok"


def test_every_rule_is_tried() -> None:
    """No denied call is missing above."""
    named = {call for rule in RULES for call in rule.calls}
    tried = {name for name, *_ in CALLS} | {name for name, *_ in UNBOXED}
    assert named - tried == {"memfd_create"}


def test_foreign_abis_are_not_there() -> None:
    """Whatever the number, x32 calls and the 32-bit entry answer ENOSYS, as on a kernel
    without them; without the filter this kernel has at least one of the two."""
    x32 = [["call", X32_BIT | number, []] for number in range(600)]
    i386 = [["i386", number] for number in range(470)]
    assert set(in_box(x32, compiled())["answers"]) == {"ENOSYS"}
    assert set(in_box(i386, compiled())["answers"]) == {"ENOSYS"}
    getpid = [["call", X32_BIT | 39, []], ["i386", 20]]
    assert "ok" in in_box(getpid, None)["answers"]


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
    run_in_box([sys.executable, "-Ic", script], compiled(unix="none"))
