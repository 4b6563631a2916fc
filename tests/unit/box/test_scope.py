"""Limits as unit properties, and every way systemd can be missing."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from axonkernel.box import cgroup, scope, systemd
from axonkernel.box.model import LimitsPlan
from axonkernel.errors import IsolationUnavailable

FULL = LimitsPlan(memory_bytes=1 << 30, cpu_millicores=1500, wall_s=60.0, pids=20)


def test_the_properties_of_a_scope() -> None:
    """Every limit by its name on D-Bus; swap is closed, or memory would never run out."""
    assert scope.properties(FULL) == {
        "Description": "axonkernel box",
        "MemoryMax": 1 << 30,
        "MemorySwapMax": 0,
        "CPUQuotaPerSecUSec": 1_500_000,
        "TasksMax": 20 + cgroup.OWN_TASKS,
        "RuntimeMaxUSec": 65_000_000,
        "CPUAccounting": True,
        "MemoryAccounting": True,
        "TasksAccounting": True,
        "TimeoutStopUSec": 2_000_000,
        "KillMode": "control-group",
        "OOMPolicy": "kill",
    }


def test_what_is_not_limited_is_not_set() -> None:
    """No limit, no property: the scope only holds the box together."""
    assert set(scope.properties(LimitsPlan())) == {
        "Description",
        "CPUAccounting",
        "MemoryAccounting",
        "TasksAccounting",
        "TimeoutStopUSec",
        "KillMode",
        "OOMPolicy",
    }


def test_boxes_of_one_kernel_share_the_caps_of_its_slice() -> None:
    """The slice carries the caps, without a clock; the scope names it."""
    shared = scope.slice_properties(FULL, boxes=4)
    assert shared["MemoryMax"] == 1 << 30
    assert shared["TasksMax"] == 20 + 4 * cgroup.OWN_TASKS
    assert "RuntimeMaxUSec" not in shared
    name = scope.slice_name("k1")
    assert name == "axonkernel_k1.slice"
    assert scope.properties(FULL, slice=name)["Slice"] == name


# -- no systemd, no bus, the wrong bus ----------------------------------------------------


@pytest.fixture
def booted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine whose init is systemd, as far as files tell; returns an empty runtime folder."""
    monkeypatch.setattr(systemd, "_BOOTED", str(tmp_path))
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def silent_bus(booted: Path) -> Iterator[Path]:
    """A bus that accepts and never says a word."""
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(booted / "bus"))
        listener.listen()
        yield booted


def refusal() -> IsolationUnavailable:
    started_s = time.monotonic()
    with pytest.raises(IsolationUnavailable) as caught:
        scope.start("axonkernel-test.scope", {}, [], user=True)
    assert time.monotonic() - started_s < 5.0
    assert caught.value.field == "limits"
    assert caught.value.missing == "systemd user manager"
    return caught.value


def test_another_init_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """PID 1 is not systemd: no command can help, and the message does not pretend."""
    monkeypatch.setattr(systemd, "_BOOTED", "/nonexistent")
    assert refusal().fix.startswith("run where systemd is the init system")


def test_no_runtime_folder(booted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session without XDG_RUNTIME_DIR (su, cron): linger is the fix."""
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    error = refusal()
    assert "loginctl enable-linger" in error.fix
    assert "XDG_RUNTIME_DIR is not set" in error.fix


def test_no_bus_socket(booted: Path) -> None:
    """The folder is there and the bus is not."""
    assert "loginctl enable-linger" in refusal().fix


def test_a_silent_bus_does_not_hang_the_launch(silent_bus: Path) -> None:
    """Nothing waits without end: less than 5 s, then a refusal."""
    assert "no answer from the bus" in refusal().fix


def test_a_bus_that_refuses(silent_bus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bus of another user says REJECTED."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(silent_bus / "other"))
    listener.listen()

    def reject() -> None:
        peer, _ = listener.accept()
        peer.recv(100)
        peer.sendall(b"REJECTED EXTERNAL\r\n")
        peer.close()

    thread = threading.Thread(target=reject)
    thread.start()
    monkeypatch.setenv("DBUS_SESSION_BUS_ADDRESS", f"unix:path={silent_bus}/other,guid=1")
    assert "refuses this user" in refusal().fix
    thread.join()
    listener.close()


def test_no_transport_at_all(booted: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the binding nor busctl: said so."""
    monkeypatch.setattr(systemd, "_absent", lambda user: "")
    monkeypatch.setattr(systemd, "_over_pydbus", lambda *_: None)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "neither pydbus nor busctl" in refusal().fix


# -- control groups ---------------------------------------------------------------------


def group(folder: Path, **files: str) -> cgroup.Group:
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)
    return cgroup.Group(*[str(folder)] * 4)


def test_counters_of_cgroup_v2(tmp_path: Path) -> None:
    """memory.peak, cpu.stat, pids.peak and memory.events."""
    found = group(
        tmp_path,
        memory__peak="4096\n",
        cpu__stat="usage_usec 1500000\nuser_usec 1\n",
        pids__peak="7\n",
        memory__events="low 0\noom 1\noom_kill 2\n",
    )
    assert found.counters() == cgroup.Counters(4096, 1.5, 7, 2)


def test_counters_of_cgroup_v1(tmp_path: Path) -> None:
    """The same from v1 files; what an old kernel does not count is None, not 0."""
    found = group(
        tmp_path,
        memory__max_usage_in_bytes="8192\n",
        cpuacct__usage="2500000000\n",
        memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 1\n",
    )
    assert found.counters() == cgroup.Counters(8192, 2.5, None, 1)


def test_a_group_that_is_gone_reads_as_nothing() -> None:
    """The scope vanishes with its last process; reading late is no error."""
    assert cgroup.Group(*["/nonexistent"] * 4).counters() == cgroup.Counters()


@pytest.mark.parametrize(
    ("files", "missing"),
    [
        ({"memory__max": "1073741824", "pids__max": "23", "cpu__max": "150000 100000"}, ()),
        ({"memory__max": "max", "pids__max": "max", "cpu__max": "max 100000"},
         ("memory", "cpu", "pids")),
        ({"memory__limit_in_bytes": "1073741824", "pids__max": "23",
          "cpu__cfs_quota_us": "150000", "cpu__cfs_period_us": "100000"}, ()),
        ({"memory__limit_in_bytes": "9223372036854771712", "cpu__cfs_quota_us": "-1",
          "cpu__cfs_period_us": "100000", "pids__max": "23"}, ("memory", "cpu")),
        ({}, ("memory", "cpu", "pids")),
    ],
)  # fmt: skip
def test_limits_are_believed_only_from_the_groups_own_files(
    tmp_path: Path, files: dict[str, str], missing: tuple[str, ...]
) -> None:
    """A manager without a controller takes the property and does nothing: it is found out."""
    assert group(tmp_path, **files).unheld(FULL) == missing
    assert group(tmp_path, **files).unheld(LimitsPlan()) == ()


def test_the_own_group_is_found() -> None:
    """The folders of this very process list it (the v2 or v1 membership file)."""
    found = [folder for folder in cgroup.find(os.getpid()) if folder]
    assert found
    listed = [Path(folder, "cgroup.procs").read_text().split() for folder in found]
    assert all(str(os.getpid()) in pids for pids in listed)


def test_a_process_that_does_not_move_is_unavailable() -> None:
    """The launch never goes on with a box outside its scope."""
    with pytest.raises(IsolationUnavailable, match="does not hold membership"):
        scope.wait_in_cgroup(os.getpid(), "axonkernel-nowhere.scope", timeout_s=0.05)
