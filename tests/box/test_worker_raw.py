"""A narrowed request's worker, against raw system calls: closed is closed, granted is granted.

Every refusal is tried by the same code in the same handler without the narrowing, where it gets
through (the twin), and what it would have changed is looked at afterwards.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from axonkernel import Kernel
from axonkernel.box import closing, landlock
from axonkernel.box.confine import take_filter
from box import raw_worker
from lab.agents import Project
from unit.memory import MemoryAudit

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

POLICY: dict[str, Any] = {
    "isolation": "auto",
    "fs": {"read": ["in"], "write": ["out"], "deny": ["in/denied", "out/kept"]},
    "net": {"allow": []},
    "shell": {"allow": ["true"]},
    "env": {"allow": ["MODE"]},
}
FILES = {
    "secret.txt": "secret",
    "in/a.txt": "a",
    "in/denied/k.txt": "k",
    "in/more/b.txt": "b",
    "out/w.txt": "w",
    "out/kept": "kept",
}


class Scene:
    """A project with files, listeners and a process to be hurt."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name, text in FILES.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.tcp = socket.create_server(("127.0.0.1", 0))
        self.tcp6 = socket.create_server(("::1", 0), family=socket.AF_INET6)
        self.udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.udp.bind(("127.0.0.1", 0))
        self.unix = socket.socket(socket.AF_UNIX)
        self.unix.bind(str(folder / "in/sock"))
        self.datagrams = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.datagrams.bind(str(folder / "in/datagrams"))
        self.abstract = socket.socket(socket.AF_UNIX)
        self.abstract.bind(f"\0axonkernel-{os.getpid()}")
        for each in (self.unix, self.abstract):
            each.listen()
        handler = "import signal, time; signal.signal(signal.SIGUSR1, lambda *_: None)"
        command = ["python3", "-ISc", f"{handler}; print(1, flush=True); time.sleep(60)"]
        self.victim = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert self.victim.stdout is not None
        self.victim.stdout.readline()

    def close(self) -> None:
        """Take all of it away."""
        for each in (self.tcp, self.tcp6, self.udp, self.unix, self.datagrams, self.abstract):
            each.close()
        self.victim.kill()
        self.victim.communicate()

    def path(self, name: str) -> str:
        return str(self.folder / name)

    def refused(self) -> list[list[Any]]:
        """What the policy does not grant; without it all of this gets through, in this order."""
        at = self.path
        pid = self.victim.pid
        return [
            ["read", at("secret.txt")],
            ["openat", at("in"), "../secret.txt"],
            ["read", at("in/denied/k.txt")],
            ["list", at("in/denied")],
            ["list", at(".")],
            ["read", at("out/kept")],
            ["write", at("out/kept")],
            ["write", at("in/a.txt")],
            ["write", at("secret.txt")],
            ["create", at("new")],
            ["create", at("in/new")],
            ["mkdir", at("folder")],
            ["mkfifo", at("fifo")],
            ["symlink", at("secret.txt"), at("in/link")],
            ["link", at("secret.txt"), at("in/second")],
            ["rename", at("in/more/b.txt"), at("moved")],
            ["truncate", at("in/a.txt")],
            ["chmod", at("in/a.txt")],
            ["chown", at("secret.txt")],
            ["utime", at("in/a.txt")],
            ["flags", at("in/a.txt")],
            ["inotify", at(".")],
            ["unlink", at("secret.txt")],
            ["execute", "/usr/bin/id"],
            ["execute", "/bin/sh", "-c", ":"],
            ["execute_memory", "/usr/bin/true"],
            ["tcp", self.tcp.getsockname()[1]],
            ["tcp6", self.tcp6.getsockname()[1]],
            ["udp", self.udp.getsockname()[1]],
            ["bind", 0],
            ["unix", at("in/sock")],
            ["unix", f"@axonkernel-{os.getpid()}"],
            ["datagram_pair", at("in/datagrams")],
            ["socket", socket.AF_NETLINK, socket.SOCK_RAW, 0],
            ["kill", pid],
            ["pidfd_kill", pid],
            ["priority", pid],
            ["memory", pid],
            ["read", f"/proc/{pid}/environ"],
            ["read", "/etc/passwd"],
            ["variable", "TOKEN"],
        ]

    def allowed(self) -> list[list[Any]]:
        """What stays possible under the policy."""
        return [
            ["read", self.path("in/a.txt")],
            ["read", self.path("in/more/b.txt")],
            ["list", self.path("in/more")],
            ["write", self.path("out/w.txt")],
            ["execute", "/usr/bin/true"],
            ["read", "/dev/urandom"],
            ["write", "/dev/null"],
            ["pair"],
            ["kill_child"],
            ["variable", "MODE"],
            ["read", "/proc/self/status"],
            ["descriptors"],
        ]

    def files(self) -> dict[str, str]:
        """What lies in the project now."""
        found = (each for each in self.folder.rglob("*") if each.is_file())
        return {str(each.relative_to(self.folder)): each.read_text() for each in found}


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setenv("TOKEN", "tok-81")
    monkeypatch.setenv("MODE", "m")
    scene = Scene(tmp_path / "project")
    yield scene
    scene.close()


def shown(attempts: list[list[Any]], answers: list[str]) -> list[str]:
    """Those that got through."""
    return [str(each) for each, answer in zip(attempts, answers, strict=True) if answer == "ok"]


def test_closed_is_closed_in_a_worker_of_an_ordinary_process(scene: Scene) -> None:
    """Files, programs, addresses, sockets, signals, variables: nothing that is not granted."""
    refused, allowed = scene.refused(), scene.allowed()
    with Kernel(
        {"tools": {"*": True}}, cwd=scene.folder, handler=raw_worker.attempt, audit=MemoryAudit()
    ) as kernel:
        answers = kernel.request_sync(allowed, policy=POLICY)
        assert set(answers) == {"ok"}, list(zip(allowed, answers, strict=True))
        (scene.folder / "out/w.txt").write_text("w")
        assert shown(refused, kernel.request_sync(refused, policy=POLICY)) == []
        assert scene.files() == FILES
        for each in (scene.tcp, scene.tcp6, scene.unix, scene.abstract):
            each.settimeout(0.05)
            with pytest.raises(TimeoutError):
                each.accept()
        for each in (scene.udp, scene.datagrams):
            each.settimeout(0.05)
            with pytest.raises(TimeoutError):
                each.recv(1)
        assert os.getpriority(os.PRIO_PROCESS, scene.victim.pid) == 0
        answers = kernel.request_sync(refused)
        assert set(answers) == {"ok"}, list(zip(refused, answers, strict=True))
        assert scene.udp.recv(1) == b"u" and scene.datagrams.recv(1) == b"d"
        assert "secret.txt" not in scene.files()


AGENT = """
    if isinstance(request, list):
        return [tried(*each) for each in request]
    attempts = json.load(open("in/attempts.json"))
    closed = json.load(open("in/policy.json"))
    attempts = [[word if word != "AGENT" else os.getpid() for word in each] for each in attempts]
    narrowed = await kernel.request(attempts, policy=closed)
    rows = kernel.request_posture(closed)
    return [narrowed, await kernel.request(attempts), [list(row) for row in rows]]
"""


@pytest.mark.root
def test_closed_is_closed_in_a_worker_in_a_box(tmp_path: Path) -> None:
    """The same where the agent is in a box already, and no namespace can be made."""
    project = Project(tmp_path / "home")
    at = project.folder
    for name, text in {**FILES, "src/x": "x"}.items():
        project.write(name, text)
    attempts: list[list[Any]] = [
        ["read", f"{at}/secret.txt"],
        ["openat", f"{at}/in", "../secret.txt"],
        ["read", f"{at}/in/denied/k.txt"],
        ["list", f"{at}/in/denied"],
        ["write", f"{at}/secret.txt"],
        ["create", f"{at}/new"],
        ["chmod", f"{at}/in/a.txt"],
        ["utime", f"{at}/in/a.txt"],
        ["rename", f"{at}/in/more/b.txt", f"{at}/moved"],
        ["execute", "/usr/bin/id"],
        ["socket", socket.AF_INET, socket.SOCK_STREAM, 0],
        ["socket", socket.AF_INET6, socket.SOCK_DGRAM, 0],
        ["socket", socket.AF_UNIX, socket.SOCK_STREAM, 0],
        ["socket", socket.AF_NETLINK, socket.SOCK_RAW, 0],
        ["kill", "AGENT"],
        ["pidfd_kill", "AGENT"],
        ["priority", "AGENT"],
        ["memory", "AGENT"],
        ["read", "/tmp/of-the-box"],
        ["variable", "TOKEN"],
    ]
    refused = len(attempts) - 2
    project.write("in/attempts.json", json.dumps(attempts))
    project.write("in/policy.json", json.dumps({**POLICY, "isolation": "auto"}))
    source = Path(raw_worker.__file__).read_text().replace("from __future__ import annotations", "")
    before = source + "\nsignal.signal(signal.SIGUSR1, lambda *_: None)\n"
    before += "open('/tmp/of-the-box', 'w').write('t')\n"
    policy = {
        "fs": {"read": [".", "/etc/passwd"], "write": ["."], "protect": False},
        "shell": {"allow": ["id", "true"]},
        "env": {"allow": ["TOKEN", "MODE"]},
    }
    project.agent(policy, AGENT, before=before)
    ended = project.run_agent(env={"TOKEN": "tok-82", "MODE": "m"})
    assert ended.code == 0, ended.err
    narrowed, free, rows = ended.value
    assert shown(attempts[:refused], narrowed[:refused]) == []
    # What is private to the box stays the request's as well, as decisions say.
    assert narrowed[refused:] == ["ok", "ENOENT"]
    assert set(free) == {"ok"}, list(zip(attempts, free, strict=True))
    assert (at / "moved").exists() and (at / "secret.txt").read_text() != ""
    assert rows[0][:3] == ["request", "enforced", "landlock"]
    walls = [each for each in project.records() if each["kind"] == "request.walls"]
    assert [each["road"] for each in walls] == ["landlock"]


@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_older_kernels_close_the_same_files(scene: Scene, version: int) -> None:
    """With only what an older Landlock knows: what it lacks is closed by the filter."""
    attempts = [
        ["read", scene.path("in/a.txt")],
        ["write", scene.path("out/w.txt")],
        ["read", scene.path("secret.txt")],
        ["write", scene.path("in/a.txt")],
        ["truncate", scene.path("in/a.txt")],
        ["create", scene.path("in/new")],
        ["rename", scene.path("in/a.txt"), scene.path("out/a.txt")],
        ["socket", socket.AF_INET, socket.SOCK_STREAM, 0],
    ]
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            landlock.abi = lambda: version
            grants = ((scene.path("in"), "r"), (scene.path("out"), "rw"))
            landlock.restrict(landlock.rules(landlock.Rules(grants, files=True)))
            closed = closing.Closed(net=True, fs=True, truncate=version < 3)
            take_filter(closing.filter_bytes(closed, os.uname().machine))
            os.write(write, json.dumps(raw_worker.attempt(None, attempts)).encode())
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    os.close(write)
    with open(read, "rb") as answers:
        found = json.load(answers)
    assert shown(attempts, found) == [str(each) for each in attempts[:2]]
    assert {**scene.files(), "out/w.txt": "w"} == FILES
    os.truncate(scene.path("in/a.txt"), 0)  # the twin: nothing but the walls is in the way
