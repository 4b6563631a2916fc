"""Names by every way a box is made: both links, root and an ordinary user, binding and program;
and what a killed resolver leaves.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from axonkernel.box.nft import TABLE
from box.boxed import PYTHON, Boxed, command_line
from lab import processes
from lab.internet import ADDRESSES, Internet
from lab.processes import REPOSITORY
from lab.user import OrdinaryUser

pytestmark = [
    pytest.mark.requires("box", "net", "root"),
    pytest.mark.usefixtures("leftovers"),
]

ASKING = Path(__file__).with_name("asking.py").read_text()
TWO4, THREE6 = ADDRESSES["two4"], ADDRESSES["three6"]
NO_NAME = "gaierror -2"
TRIES = [
    ["reach", "api.test", 443], ["reach", "v6only.test", 443], ["reach", "x.wild.test", 8080],
    ["reach", "web.test", 443], ["reach", TWO4, 443], ["reach", "x.wild.test", 80],
]  # fmt: skip
GRANTED = ["api.test", "v6only.test", "*.wild.test:8000-8100"]
EXPECTED = ["ok"] * 3 + [NO_NAME] + ["ConnectionRefusedError"] * 2


def check(said: str, net: Internet) -> None:
    """Granted names, over both families and by a range of ports, were reached, and no more."""
    assert [json.loads(line)[0] for line in said.splitlines()] == EXPECTED
    asked = {record.data.split()[0] for record in net.seen("dns")}
    assert asked == {"api.test", "v6only.test", "x.wild.test"}
    reached = {(r.address, r.port) for r in net.records() if r.kind == "packet-tcp"}
    assert {(THREE6, 443), (TWO4, 8080)} <= reached and len(reached) == 3


def command() -> list[str]:
    return [PYTHON, "-ISc", ASKING, json.dumps(TRIES)]


@pytest.mark.parametrize("how", ["veth", "program"])
def test_as_root(near: Boxed, net: Internet, how: str) -> None:
    """By a veth link; and by pasta, where the table is loaded and added to by the ``nft``
    program. Pasta and the binding are everywhere else."""
    from net.test_box_net import without_binding

    policy = near.root / "p.toml"
    link = "veth" if how == "veth" else "pasta"
    policy.write_text(
        f'[fs]\nread = ["{near.project}"]\n[net]\nallow = {json.dumps(GRANTED)}\nlink = "{link}"\n'
    )
    env = without_binding(near.root) if how == "program" else {}
    ended = near.exec("--policy", policy, command=command(), env=env)
    assert ended.code == 0, ended.err
    check(ended.text, net)


@pytest.mark.usefixtures("tun_for_all")
def test_as_an_ordinary_user(near: Boxed, net: Internet, ordinary_user: OrdinaryUser) -> None:
    """Who has no privilege gets the same."""
    ordinary_user.demand_checkout()
    home = ordinary_user.home
    grants = [word for entry in GRANTED for word in ("--net", entry)]
    words = command_line("--read", ".", *grants, command=command())
    kept = {f"XDG_{name}_HOME": str(home / name) for name in ("CACHE", "STATE", "CONFIG")}
    env = {"HOME": str(home), "PYTHONPATH": str(REPOSITORY), "LANG": "C.UTF-8", **kept}
    project = home / "project"
    project.mkdir()
    near.project.rename(project / "given")
    ended = net.run(words, user=ordinary_user.uid, env=env, cwd=project / "given")
    assert ended.returncode == 0, ended.stderr
    check(ended.stdout, net)


@contextlib.contextmanager
def running(near: Boxed, code: str, *grants: str) -> Iterator[subprocess.Popen[bytes]]:
    """A box with a program that is told to go on by lines."""
    options = ["--read", ".", "--quiet", *(w for g in grants for w in ("--net", g))]
    words = command_line(*options, command=[PYTHON, "-ISc", ASKING.split("\nfor name, ")[0] + code])
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        [*near.prefix, *words], stdin=pipe, stdout=pipe, env=near.env, cwd=near.project
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


LOOP = """
for line in sys.stdin:
    name, *arguments = json.loads(line)
    print(json.dumps(globals()[name](*arguments)), flush=True)
"""


def say(process: subprocess.Popen[bytes], *attempt: Any) -> Any:
    assert process.stdin and process.stdout
    process.stdin.write(json.dumps(attempt).encode() + b"\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def resolvers(process: subprocess.Popen[bytes]) -> list[int]:
    """The processes below that wait for sockets of the host's network and of the box's."""
    found = []
    for pid in processes.descendants(process.pid):
        with contextlib.suppress(OSError):
            names = [os.readlink(entry) for entry in Path(f"/proc/{pid}/fd").iterdir()]
            if "anon_inode:[eventpoll]" in names and names.count("anon_inode:[eventpoll]") == 1:
                found.append(pid)
    return [pid for pid in found if "python" in os.readlink(f"/proc/{pid}/exe")]


def test_a_killed_resolver_opens_nothing_and_another_takes_its_place(
    near: Boxed, net: Internet
) -> None:
    """What it had let in can be reached for its time, nothing else; the next question starts
    another, and after some deaths nobody answers and lookups fail at once."""
    with running(near, LOOP, "api.test", "*.wild.test:80") as box:
        assert say(box, "reach", "api.test", 443) == "ok"
        killed: set[int] = set()
        for _ in range(20):
            alive = set(resolvers(box)) - killed
            for pid in alive:
                os.kill(pid, signal.SIGKILL)
            killed |= alive
            deadline = time.monotonic() + 10
            while any(processes.state(pid) not in ("", "Z") for pid in killed):
                assert time.monotonic() < deadline
            address = ADDRESSES["one4"]
            assert say(box, "reach", address, 443) == "ok"
            assert say(box, "reach", TWO4, 443) == "ConnectionRefusedError"
            answer = say(box, "lookup", "api.test")
            if isinstance(answer, str):
                break
            assert address in answer
        assert len(killed) == 16 and answer.startswith("gaierror")
        assert say(box, "reach", TWO4, 443) == "ConnectionRefusedError"
    assert not [r for r in net.records() if r.kind == "packet-tcp" and r.address == TWO4]


LASTING = """
held = socket.create_connection(("api.test", 443), 5)
there = held.getpeername()[0]
def says():
    held.sendall(b"x")
    return held.recv(1) == b"x"
print(says(), reach(there, 443), flush=True)
sys.stdin.readline()
print(says(), reach(there, 443), says(), flush=True)
"""


def test_a_connection_outlasts_what_let_it_in(near: Boxed) -> None:
    """When the time of an answer is over, what is connected stays so, and nothing new begins."""
    with running(near, LASTING, "api.test") as box:
        assert box.stdin and box.stdout
        assert box.stdout.readline() == b"True ok\n"
        (resolver,) = resolvers(box)
        for name in ("allow4", "allow6"):
            flush = ["nft", "flush", "set", "inet", TABLE, name]
            enter = ["nsenter", f"--net=/proc/{resolver}/ns/net"]
            subprocess.run([*enter, *flush], check=True, timeout=20)
        box.stdin.write(b"go on\n")
        box.stdin.flush()
        assert box.stdout.readline() == b"True ConnectionRefusedError True\n"
