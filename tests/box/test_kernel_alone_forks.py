"""A kernel before and after a fork: pre-fork servers, and children that share nothing."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from axonkernel.audit.verify import verify
from lab.lacking import without
from lab.processes import REPOSITORY

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

#: Makes a kernel, uses it, forks children that use it at once, and uses it again.
FORKS = """
import json, os, sys, threading
from axonkernel import Kernel
kernel = Kernel(
    {"isolation": sys.argv[1], "fs": {"read": ["."]}, "shell": {"allow": ["cat", "true", "sleep"],
     "spawn": True}},
    audit="../log",
)
def read(name):
    return kernel.process.run_sync(["cat", name]).text
spawned = kernel.process.spawn_sync(["sleep", "60"])
texts = [kernel.process.run_sync(["true"]).walls, read("a.txt")]
busy = [threading.Thread(target=lambda: [read("a.txt") for _ in range(4)]) for _ in range(3)]
for thread in busy: thread.start()
children = []
for n in range(4):
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        with os.fdopen(into, "w") as file:
            file.write(json.dumps([read("a.txt") for _ in range(2)]))
        if n % 2: kernel.close()
        os._exit(0)
    os.close(into)
    children.append((pid, out))
for pid, out in children:
    with os.fdopen(out) as file: texts += json.load(file)
    assert os.waitpid(pid, 0)[1] == 0
for thread in busy: thread.join()
texts.append(read("a.txt"))
assert spawned.running, "a child's close ended the parent's program"
kernel.close()
assert not spawned.running
print(json.dumps(texts))
"""
#: gunicorn --preload makes the kernel in the master, uses it there, and forks its workers.
WSGI = """
import os
from axonkernel import Kernel
kernel = Kernel({"fs": {"read": ["."]}, "shell": {"allow": ["cat"]}}, audit="../log")
before = kernel.process.run_sync(["cat", "a.txt"]).text
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    text = kernel.process.run_sync(["cat", "a.txt"]).text
    return [f"{os.getpid()} {before} {text}".encode()]
"""
ASGI = """
import os
from axonkernel import Kernel
kernel = Kernel({"fs": {"read": ["."]}, "shell": {"allow": ["cat"]}}, audit="../log")
async def app(scope, receive, send):
    if scope["type"] != "http": return
    text = (await kernel.process.run(["cat", "a.txt"])).text
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": f"{os.getpid()} {text} {text}".encode()})
"""


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("text of a")
    return folder


def environment(ws: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": f"{REPOSITORY}:{ws}", "HOME": str(ws.parent)}


@pytest.mark.parametrize("isolation", ["auto", pytest.param("best-effort", marks=pytest.mark.root)])
def test_children_of_a_fork_use_the_kernel_on_their_own(ws: Path, isolation: str) -> None:
    """While the parent's threads use it: all get answers, one log takes every record, and what
    the parent started goes on. By boxes, and by the zygote where none can be made."""
    (ws / "forks.py").write_text(FORKS)
    argv = [sys.executable, "forks.py", isolation]
    done = subprocess.run(
        argv if isolation == "auto" else without("user namespaces", argv),
        cwd=ws,
        env=environment(ws),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    walls, *texts = json.loads(done.stdout)
    assert walls == ["mediator", "box" if isolation == "auto" else "landlock"]
    assert texts == ["text of a"] * 10
    assert verify(ws.parent / "log") == ()
    kinds = [json.loads(line)["kind"] for line in (ws.parent / "log").read_text().splitlines()]
    assert kinds.count("process.ended") == 2 + 12 + 8 + 1


SERVERS = {
    "gunicorn": (WSGI, ["gunicorn", "--preload", "--workers=2", "--bind=fd://{fd}", "served:app"]),
    "uvicorn": (ASGI, ["uvicorn", "--workers=2", "--fd={fd}", "served:app"]),
}


@pytest.mark.parametrize("server", ["gunicorn", pytest.param("uvicorn", marks=pytest.mark.deep)])
def test_each_worker_of_a_web_server_has_its_kernel(ws: Path, server: str) -> None:
    """Both workers answer by programs in boxes; nothing is left when the server has ended."""
    text, words = SERVERS[server]
    (ws / "served.py").write_text(text)
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        argv = [sys.executable, "-m", *(w.format(fd=listener.fileno()) for w in words)]
        log = (ws.parent / "out").open("w")
        process = subprocess.Popen(
            argv,
            cwd=ws,
            env=environment(ws),
            pass_fds=[listener.fileno()],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/"
        try:
            workers = answers(url, process)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
            log.close()
    assert len(workers) == 2, (ws.parent / "out").read_text()
    assert verify(ws.parent / "log") == ()


def answers(url: str, process: subprocess.Popen[bytes]) -> set[str]:
    """The pids of the workers that answered rightly, asked until there are two."""
    workers: set[str] = set()
    deadline = time.monotonic() + 30
    while len(workers) < 2 and time.monotonic() < deadline:
        assert process.poll() is None
        with urllib.request.urlopen(url, timeout=30) as answer:
            pid, _, rest = answer.read().decode().partition(" ")
        assert rest == "text of a text of a"
        workers.add(pid)
    return workers


#: Runs a program, gives up being root, and runs it again.
DROPS = """
import os, sys
from axonkernel import Kernel
policies = {
    "box": {"fs": {"read": ["."]}, "shell": {"allow": ["id"]}},
    "guard": {"shell": {"allow": ["id"]}},
}
with Kernel(policies[sys.argv[1]], audit="../log") as kernel:
    ids = [kernel.process.run_sync(["id", "-u"], cwd="/").text.strip()]
    os.chmod("../log", 0o666)
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    for _ in range(2): ids.append(kernel.process.run_sync(["id", "-u"], cwd="/").text.strip())
print(ids)
"""


@pytest.mark.root
@pytest.mark.parametrize("road", ["guard", pytest.param("box", marks=pytest.mark.deep)])
def test_a_process_that_gave_up_root_starts_nothing_as_root(ws: Path, road: str) -> None:
    """What waited from before is not used: the programs are the user that the process is."""
    for folder in (ws.parent, ws.parent.parent):
        folder.chmod(folder.stat().st_mode | 0o011)
    ws.chmod(0o777)
    (ws / "drops.py").write_text(DROPS)
    argv = [sys.executable, "drops.py", road]
    done = subprocess.run(argv, cwd=ws, env=environment(ws), capture_output=True, text=True)
    assert done.stdout.strip() == "['0', '65534', '65534']", done.stderr
