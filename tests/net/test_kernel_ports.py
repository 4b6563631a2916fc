"""``net.listen`` of a kernel in an ordinary process: whose ports the host's lead to."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from box.boxed import PYTHON, Boxed
from lab.internet import Internet
from lab.processes import REPOSITORY

pytestmark = [
    pytest.mark.requires("box", "net", "root"),
    pytest.mark.usefixtures("leftovers"),
]

SERVE = """
import socket
while True:
    with socket.create_server(("127.0.0.1", 8093)) as server:
        client = server.accept()[0]
        client.sendall(b"from the box")
        client.close()
"""
#: An application: prints what its kernel's programs could do with the port, as JSON.
APPLICATION = """
import asyncio, json, socket, sys, time
from axonkernel import BoxError, Kernel
FOLDER, PYTHON, SERVE = sys.argv[1:]
policy = {
    "fs": {"read": [FOLDER]}, "shell": {"allow": [PYTHON], "spawn": True},
    "net": {"allow": [], "listen": [8093]}, "tools": {},
}
def ask():
    try:
        with socket.create_connection(("127.0.0.1", 8093), 5) as client:
            return client.recv(99).decode()
    except OSError as error:
        return type(error).__name__
def ask_until_up():
    deadline = time.monotonic() + 20
    while (said := ask()) != "from the box" and time.monotonic() < deadline:
        time.sleep(0.05)
    return said
async def many(kernel):
    argv = [PYTHON, "-ISc", "import time; time.sleep(1)"]
    return await asyncio.gather(*(kernel.process.run(argv) for _ in range(3)))
with Kernel(policy, cwd=FOLDER, audit=FOLDER + "-log") as kernel:
    found = {"posture": [row.note for row in kernel.posture() if row.field == "net.listen"]}
    results = asyncio.run(many(kernel))
    found["run"] = [[result.ok, "net.listen" in result.held_by] for result in results]
    first = kernel.process.spawn_sync([PYTHON, "-ISc", SERVE])
    found["reached"] = ask_until_up()
    found["beside"] = kernel.process.run_sync([PYTHON, "-ISc", "pass"]).ok
    try:
        second = kernel.process.spawn_sync([PYTHON, "-ISc", SERVE]).wait_sync()
        found["second"] = repr(second)
    except BoxError as error:
        found["second"] = str(error)
    found["still"] = ask_until_up()
    first.kill()
    found["ended"] = ask()
    third = kernel.process.spawn_sync([PYTHON, "-ISc", SERVE])
    found["again"] = ask_until_up()
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(net: Internet, tmp_path_factory: pytest.TempPathFactory, net_cache: Any) -> Any:
    """What the application said."""
    boxed = Boxed(tmp_path_factory.mktemp("ports"), net_cache)
    done = net.run(
        [sys.executable, "-c", APPLICATION, str(boxed.project), PYTHON, SERVE],
        cwd=boxed.project,
        env={**boxed.env, "PYTHONPATH": str(REPOSITORY)},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_programs_that_run_to_their_end_have_no_ports(found: dict[str, Any]) -> None:
    """Several at once run, also beside one that has the port; none claims to be reached."""
    assert found["run"] == [[True, False]] * 3
    assert found["beside"]


def test_a_spawned_program_is_reached(found: dict[str, Any]) -> None:
    """The host's loopback leads to it while it lives, and to the next one afterwards."""
    assert found["reached"] == "from the box"
    assert found["ended"] == "ConnectionRefusedError"
    assert found["again"] == "from the box"


def test_a_second_one_is_told_that_the_port_is_taken(found: dict[str, Any]) -> None:
    """BoxError with the port; the first is still reached."""
    assert "link" in found["second"] and "8093" in found["second"], found["second"]
    assert found["still"] == "from the box"


def test_the_posture_says_whose_ports_they_are(found: dict[str, Any]) -> None:
    """One row, with what a caller has to know."""
    (note,) = found["posture"]
    assert "process.spawn at a time" in note and "process.run have no ports" in note
