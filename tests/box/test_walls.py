"""The walls every box has, tried from inside: privileges, system calls, sockets, descriptors."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from box.boxed import INSIDE, PYTHON, Boxed

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

READ = ["--read", "."]
#: What is closed in a box, whatever is open beside it.
BOXES = {
    "closed": READ,
    "net open": [*READ, "--open", "net"],
    "all open": ["--open", "fs", "--open", "net", "--open", "shell", "--open", "env"],
}
each_box = pytest.mark.parametrize("grants", BOXES.values(), ids=BOXES)


@each_box
def test_no_privilege_is_left(box: Boxed, grants: list[str]) -> None:
    """All capability sets are empty, no new privileges can be gained, the filter is on."""
    (status,) = box.attempts(["status"], grants=grants, cwd="/")
    for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"):
        assert int(status[name], 16) == 0
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    ours = Path("/proc/self/status").read_text()
    assert "Seccomp:\t0" in ours  # so that the 2 above is the box's doing


@each_box
def test_namespaces_cannot_be_made_or_joined(box: Boxed, grants: list[str]) -> None:
    """unshare of every kind, clone3 and setns fail; a plain thread's unshare is let be."""
    flags = {"user": 0x10000000, "mnt": 0x20000, "net": 0x40000000, "pid": 0x20000000,
             "ipc": 0x8000000, "uts": 0x4000000, "cgroup": 0x2000000}  # fmt: skip
    answers = box.attempts(
        *(["call", 272, flag] for flag in flags.values()),
        ["call", 435, 0, 0],  # clone3
        ["call", 308, 0, 0],  # setns
        ["call", 165, "none", "/tmp", "tmpfs", 0, 0],  # mount
        ["call", 166, "/tmp", 2],  # umount2
        ["call", 272, 0x400],  # CLONE_FILES
        grants=grants,
        cwd="/",
    )
    assert answers[:7] == ["EPERM"] * 7
    assert answers[7] == "ENOSYS"
    assert answers[8:11] == ["EPERM"] * 3
    assert answers[11] == "ok"


def test_the_programs_that_do_it_fail_too(box: Boxed) -> None:
    """unshare, nsenter, mount and a nested bwrap, with a marker that must not appear."""
    programs = ["unshare", "nsenter", "mount", "bwrap", "touch"]
    marker = ["touch", "out/marker"]
    answers = box.attempts(
        ["spawn", "unshare", "-Urn", *marker],
        ["spawn", "unshare", "-U", *marker],
        ["spawn", "nsenter", "--net=/proc/1/ns/net", *marker],
        ["spawn", "mount", "-t", "tmpfs", "none", "/tmp"],
        ["spawn", "bwrap", "--ro-bind", "/", "/", "--unshare-all", *marker],
        ["names", "out"],
        ["spawn", *marker],
        grants=[*READ, "--write", "./out", *(w for name in programs for w in ("--allow", name))],
    )
    assert all(answer[0] != 0 for answer in answers[:5]), answers[:5]
    assert answers[5] == []
    assert answers[6][0] == 0 and (box.project / "out/marker").exists()


@each_box
def test_odd_sockets_and_calls_are_refused(box: Boxed, grants: list[str]) -> None:
    """Raw, packet, vsock, netlink beside routing, ptrace, io_uring, bpf."""
    answers = box.attempts(
        ["sock", socket.AF_INET, socket.SOCK_RAW, 1],
        ["sock", socket.AF_PACKET, socket.SOCK_RAW],
        ["sock", 40, socket.SOCK_STREAM],
        ["sock", socket.AF_NETLINK, socket.SOCK_RAW, 12],
        ["sock", 38, socket.SOCK_SEQPACKET],
        ["call", 101, 16, 1, 0, 0],
        ["call", 425, 1, 0],
        ["call", 321, 0, 0, 0],
        ["sock", socket.AF_INET, socket.SOCK_STREAM],
        ["sock", socket.AF_INET6, socket.SOCK_DGRAM],
        ["sock", socket.AF_UNIX, socket.SOCK_STREAM],
        grants=grants,
        cwd="/",
    )
    assert answers[0] in ("EPERM", "EACCES")
    assert set(answers[1:5]) <= {"EAFNOSUPPORT", "EPROTONOSUPPORT", "EPERM"}
    assert answers[5:8] == ["EPERM", "ENOSYS", "EPERM"]
    assert answers[8:] == ["ok", "ok", "ok"]


@each_box
def test_only_three_descriptors_get_in(box: Boxed, grants: list[str]) -> None:
    """A file, a folder and a socket the supervisor inherited are not there; 0, 1, 2 are."""
    secret = os.open(box.project / "secret.txt", os.O_RDONLY)
    folder = os.open("/etc", os.O_RDONLY)
    left, right = socket.socketpair()
    with left, right:
        given = [secret, folder, left.fileno()]
        found, reading = box.attempts(
            ["descriptors"], ["read", f"/proc/self/fd/{secret}"], grants=grants, pass_fds=given,
            cwd="/",
        )  # fmt: skip
    os.close(secret)
    os.close(folder)
    assert found == [0, 1, 2]
    assert reading == "ENOENT"


@each_box
@pytest.mark.parametrize("datagram", [False, True], ids=["stream", "datagram"])
def test_abstract_sockets_of_the_host_are_closed(
    box: Boxed, grants: list[str], datagram: bool
) -> None:
    """With an own network and with the host's: refused, and the listener saw nothing."""
    name = f"axonbox-{uuid.uuid4().hex}"
    kind = socket.SOCK_DGRAM if datagram else socket.SOCK_STREAM
    with socket.socket(socket.AF_UNIX, kind) as server:
        server.bind(f"\0{name}")
        if not datagram:
            server.listen()
        server.settimeout(0.2)
        (answer,) = box.attempts(["unix", f"@{name}", datagram], grants=grants, cwd="/")
        assert answer in ("ECONNREFUSED", "EPERM")
        with pytest.raises(TimeoutError):
            server.recv(1) if datagram else server.accept()
        # The twin: the same attempt outside arrives.
        with socket.socket(socket.AF_UNIX, kind) as client:
            client.connect(f"\0{name}")
            client.send(b"x")
            if datagram:
                assert server.recv(1) == b"x"
            else:
                server.accept()[0].close()


def test_the_boxes_own_abstract_sockets_work(box: Boxed) -> None:
    """Programs in one box may talk over them."""
    code = """
import socket
with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
    server.bind("\\0mine"); server.listen(); client.connect("\\0mine"); print("met")
"""
    run = box.exec(*READ, command=[PYTHON, "-ISc", code])
    assert run.text == "met\n", run.err


def test_sockets_of_the_host_in_scratch_folders_are_out_of_reach(box: Boxed) -> None:
    """A socket in the host's /tmp (a tmux, an ssh agent) cannot be met, also when its
    variable is let in."""
    with tempfile.TemporaryDirectory(prefix="axonbox-") as folder:
        path = f"{folder}/agent"
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(path)
            server.listen()
            server.settimeout(0.2)
            env = {"SSH_AUTH_SOCK": path}
            found, answer = box.attempts(
                ["environment"], ["unix", path], grants=[*READ, "--env", "SSH_AUTH_SOCK"], env=env
            )
            assert found["SSH_AUTH_SOCK"] == path
            assert answer == "ENOENT"
            with pytest.raises(TimeoutError):
                server.accept()


@each_box
def test_processes_of_the_host_are_invisible(box: Boxed, grants: list[str]) -> None:
    """None is listed, none can be signalled, traced or read; its own child can be."""
    with sleeper() as host:
        run = box.exec(*grants, command=[PYTHON, "-ISc", meeting(host.pid)], cwd="/")
        assert host.poll() is None
    lines = run.text.split()
    assert lines[:2] == ["none", "-9"], run.text
    assert int(lines[2]) <= 3


def meeting(pid: int) -> str:
    return f"""
import os, signal
try: os.kill({pid}, 9); print("reached")
except ProcessLookupError: print("none")
child = os.fork()
if child == 0: signal.pause()
os.kill(child, 9); print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(len([name for name in os.listdir("/proc") if name.isdigit()]))
"""


@contextlib.contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    """A process of the host with a number that no process of a small box has."""
    while True:
        with subprocess.Popen(["sleep", "60"]) as process:
            try:
                if process.pid > 50:
                    yield process
                    return
            finally:
                process.kill()


def test_the_terminal_cannot_be_typed_into(box: Boxed) -> None:
    """TIOCSTI is refused, and there is no controlling terminal to open."""
    answers = box.attempts(["call", 16, 0, 0x5412, 0], ["read", "/dev/tty"], grants=READ)
    assert answers == ["EPERM", "ENXIO"]


def test_a_set_id_program_gains_nothing(box: Boxed) -> None:
    """No set-id bit can be made, and one that is there changes no uid."""
    answers = box.attempts(
        ["write", "out/f"],
        ["chmod", "out/f", 0o4755],
        ["chmod", "out/f", 0o755],
        grants=[*READ, "--write", "./out"],
    )
    assert answers == ["ok", "EPERM", "ok"]
    assert (box.project / "out/f").stat().st_mode & 0o7000 == 0


def test_devices_are_the_harmless_ones(box: Boxed) -> None:
    """/dev has no disk, no memory, no kernel message; null and urandom are there."""
    names, null = box.attempts(["names", "/dev"], ["read", "/dev/null"], grants=READ)
    assert set(names) == {
        "core", "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout",
        "tty", "urandom", "zero",
    }  # fmt: skip
    assert null == ""
    assert "sock(" in INSIDE
