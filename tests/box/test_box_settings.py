"""``box.noexec``, ``box.devices`` and ``box.nested_userns``: each against a box without it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from box.boxed import PYTHON, Boxed, attempts_command
from lab.user import OrdinaryUser

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

WRITTEN = ["/tmp", "/var/tmp", "/run", "/dev", "/dev/shm", "HOME", "WS"]
RUNS = """
import ctypes, json, mmap, os, shutil, subprocess, sys
def run(folder, how):
    target = f"{folder}/tool"
    try:
        shutil.copy("/usr/bin/true", target)
        if how == "loader":
            return subprocess.run(["/lib64/ld-linux-x86-64.so.2", target],
                                  capture_output=True).returncode
        return subprocess.run([target]).returncode
    except OSError as error:
        return type(error).__name__
def memory(flags):
    libc = ctypes.CDLL(None, use_errno=True)
    fd = libc.memfd_create(b"x", flags)
    if fd < 0: return os.strerror(ctypes.get_errno())
    os.write(fd, open("/usr/bin/true", "rb").read())
    os.fchmod(fd, 0o755) if not flags else None
    try: return subprocess.run([f"/proc/self/fd/{fd}"], pass_fds=[fd]).returncode
    except OSError as error: return type(error).__name__
folders = [word.replace("HOME", os.path.expanduser("~")).replace("WS", os.getcwd() + "/out")
           for word in json.loads(sys.argv[1])]
print(json.dumps({"direct": [run(folder, "direct") for folder in folders],
                  "loader": run(folders[-1], "loader"),
                  "kept": subprocess.run(["kept/tool"]).returncode,
                  "memory": memory(0), "sealed": memory(8)}))
"""


def policy(box: Boxed, settings: str, *, read: str = '["."]') -> list[str]:
    path = box.project / "p.toml"
    path.write_text(
        f'default = "deny"\n[fs]\nread = {read}\nwrite = ["./out"]\n'
        f'[shell]\nallow = ["true", "python3"]\n[box]\n{settings}\n'
    )
    return ["--policy", "p.toml"]


def ran(box: Boxed, settings: str) -> dict[str, Any]:
    command = [PYTHON, "-c", RUNS, json.dumps(WRITTEN)]
    run = box.exec(*policy(box, settings), command=command)
    assert run.code == 0, run.err
    told: dict[str, Any] = json.loads(run.out)
    return told


def state(box: Boxed, settings: str, field: str) -> tuple[str, str]:
    run = box.exec(*policy(box, settings), command=["true"])
    rows = {row["field"]: row for row in run.status["posture"]}
    return (rows[field]["state"], rows[field]["note"]) if field in rows else ("", "")


def test_noexec_everywhere_the_box_writes(box: Boxed) -> None:
    """A program made in any writable place starts without ``noexec`` and not with it, by name,
    by the loader and out of memory; programs that were read only from the start do."""
    (box.project / "kept").mkdir()
    shutil.copy("/usr/bin/true", box.project / "kept/tool")
    free = ran(box, "noexec = false")
    assert free["direct"] == [0] * len(WRITTEN), free
    assert free["loader"] == free["memory"] == 0 and free["kept"] == 0
    held = ran(box, "noexec = true")
    assert held["direct"] == ["PermissionError"] * len(WRITTEN), held
    assert held["loader"] not in (0, "PermissionError") and held["kept"] == 0
    assert held["memory"] == "Permission denied"
    # Sealed memory is still there to be used, as kernels have it since 6.3.
    assert held["sealed"] in ("PermissionError", "Invalid argument")
    assert state(box, "noexec = true", "box.noexec")[0] == "enforced"
    assert state(box, "noexec = false", "box.noexec") == ("", "")


def test_noexec_leaves_everyday_work_alone(box: Boxed) -> None:
    """Python with its processes, shared memory and temporary files runs as before."""
    code = """
import multiprocessing as mp, sqlite3, subprocess, tempfile
from multiprocessing import shared_memory
if __name__ == "__main__":
    with mp.get_context("fork").Pool(2) as pool: print(pool.map(abs, [-1, 2]))
    memory = shared_memory.SharedMemory(create=True, size=9); memory.close(); memory.unlink()
    with tempfile.NamedTemporaryFile() as file: file.write(b"x")
    sqlite3.connect("out/a.db").execute("create table t(x)")
    print(subprocess.run(["true"]).returncode)
"""
    (box.project / "work.py").write_text(code)
    run = box.exec(*policy(box, "noexec = true"), command=[PYTHON, "work.py"])
    assert (run.code, run.text) == (0, "[1, 2]\n0\n"), run.err


def test_a_device_is_there_when_named(box: Boxed) -> None:
    """A node that is named can be opened as the device it is; without it, it does not exist;
    the folders around it hold nothing else."""
    here = os.path.exists("/dev/kvm")
    attempts = [["kind", "/dev/kvm"], ["names", "/dev"], ["read", "/dev/mem"]]
    with_it = box.exec(*policy(box, 'devices = ["kvm"]'), command=attempts_command(*attempts))
    without = box.exec(*policy(box, "devices = []"), command=attempts_command(*attempts))
    (kind, names, memory), (twin, fewer, _) = json.loads(with_it.out), json.loads(without.out)
    assert memory == twin == "ENOENT" and set(names) - set(fewer) == ({"kvm"} if here else set())
    if here:
        assert kind == oct(os.stat("/dev/kvm").st_mode)
        assert state(box, 'devices = ["kvm"]', "box.devices") == ("open", "/dev/kvm can be used")
    else:
        assert kind == "ENOENT" and "box.devices kvm: this machine has no such" in with_it.err


def test_an_absent_device_is_told(box: Boxed) -> None:
    """Start goes on with one line that names it, and the posture claims nothing."""
    absent = next(name for name, path in (("nvidia", "/dev/nvidiactl"), ("dri", "/dev/dri"))
                  if not os.path.exists(path))  # fmt: skip
    run = box.exec(*policy(box, f'devices = ["{absent}"]'), command=["true"])
    assert run.code == 0 and f"box.devices {absent}: this machine has no such device" in run.err
    assert "none of them" in state(box, f'devices = ["{absent}"]', "box.devices")[1]


@pytest.mark.root
def test_a_device_can_be_used(box: Boxed) -> None:
    """What the device answers reaches the box: KVM its version, where there is one; that of a
    machine without it is said to be missing (the test before)."""
    code = "import fcntl; print(fcntl.ioctl(open('/dev/kvm', 'rb'), 0xAE00))"
    run = box.exec(*policy(box, 'devices = ["kvm"]'), command=[PYTHON, "-c", code])
    outside = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True)
    assert (run.code, run.text) == (outside.returncode, outside.stdout), run.err


NESTED = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x10000000 | 0x20000): print(os.strerror(ctypes.get_errno())); sys.exit()
libc.mount(b"none", b"/", None, 0x44000, None)
print(libc.mount(b"t", b"/tmp", b"tmpfs", 0, None), os.listdir("/tmp"))
"""


def test_nested_user_namespaces_when_declared(box: Boxed) -> None:
    """A program that sandboxes itself makes its namespaces and mounts; otherwise it cannot."""
    run = box.exec(*policy(box, "nested_userns = true"), command=[PYTHON, "-c", NESTED])
    assert (run.code, run.text) == (0, "0 []\n"), run.err
    twin = box.exec(*policy(box, "nested_userns = false"), command=[PYTHON, "-c", NESTED])
    assert twin.text.strip() in ("Operation not permitted", "No space left on device"), twin.err
    assert state(box, "nested_userns = true", "box.nested_userns")[0] == "open"


@pytest.mark.root
def test_a_box_in_a_box_when_declared(ordinary_user: OrdinaryUser, box_cache: Path) -> None:
    """For an ordinary user bubblewrap works inside, and what was masked outside stays masked
    in there. (uid 0 without capabilities may map no uid 0, so it can have no such box.)"""
    root = ordinary_user.home / "work"
    root.mkdir()
    for folder in (ordinary_user.home, root):
        folder.chmod(0o755)
    box = Boxed(root, box_cache)
    (box.project / "a.txt").write_text("text of a")
    (box.project / "secret").write_text("KEY")
    os.chown(box.project, ordinary_user.uid, ordinary_user.uid)
    path = root / "p.toml"
    path.write_text(
        f'default = "deny"\n[fs]\nwrite = ["{box.project}"]\ndeny = ["{box.project}/secret"]\n'
        '[shell]\nallow = ["bwrap", "cat"]\n[box]\nnested_userns = true\n'
    )
    inner = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--proc", "/proc", "cat"]
    options = ["--policy", str(path)]
    done = box.exec(*options, command=[*inner, "a.txt"])
    assert done.text == "text of a", done.err
    denied = box.exec(*options, command=[*inner, "secret"])
    assert denied.code == 1 and "Permission denied" in denied.err and "KEY" not in denied.text
    path.write_text(path.read_text().replace("true", "false"))
    assert box.exec(*options, command=[*inner, "a.txt"]).code == 1
