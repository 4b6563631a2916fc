"""Brokered programs and a narrowed request: the broker would judge by what the agent may."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from lab.agents import Project

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

PYTHON = "/usr/bin/python3"
POLICY = {
    "isolation": "auto",
    "fs": {"read": ["in"], "write": ["out"]},
    "shell": {"allow": [PYTHON, "touch"], "args": {"touch": {"deny": ["nothing*"]}}},
    "env": {"allow": []},
}
#: Has a file made by the broker, by the shim and by hand; says how that went, and whether other
#: sockets and pairs can be made.
TRIES = """
import os, socket, struct, subprocess, sys
def shim(name):
    try:
        return subprocess.run(["touch", name], stderr=subprocess.DEVNULL).returncode
    except OSError as error:
        return type(error).__name__
def hand(name):
    fields = ["/usr/bin/touch", "touch", os.getcwd(), "2", "touch", name]
    body = b"".join(os.fsencode(field) + b"\\0" for field in fields)
    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect("/run/axonkernel/broker/socket")
            sock.sendall(struct.pack("<4sII", b"AXB1", len(body), 0) + body)
            return sock.makefile("rb").read()[-9:-7].hex()
    except OSError as error:
        return type(error).__name__
def others():
    socket.socket(socket.AF_INET).close()
    for end in socket.socketpair():
        end.close()
    return "ok"
print(shim(sys.argv[1] + "-shim"), hand(sys.argv[1] + "-hand"), others())
"""
BODY = """
    words = [PYTHON, "-ISc", TRIES]
    said = []
    for name, policy in POLICIES:
        with kernel.narrow(policy):
            said.append((await kernel.process.run([*words, f"out/{name}"])).stdout.decode().split())
    return said
"""


def test_what_a_narrowed_request_starts_does_not_reach_the_broker(tmp_path: Path) -> None:
    """Neither the shim nor a call by hand has a file made that the request may not make, or runs
    a program it may not run; without the narrowing both do."""
    narrower = [
        ("whole", {}),
        ("files", {"fs": {"read": ["in"], "write": []}}),
        ("programs", {"shell": {"allow": [PYTHON]}}),
    ]
    project = Project(tmp_path)
    for folder in ("in", "out"):
        (project.folder / folder).mkdir(parents=True)
    given = f"PYTHON, TRIES, POLICIES = {PYTHON!r}, {TRIES!r}, {narrower!r}\n"
    project.agent(POLICY, BODY.replace("\n    words", "\n    " + given + "    words", 1))
    ended = project.run_agent()
    whole, files, programs = ended.value
    assert whole[0] == "0" and whole[2] == "ok", ended.err
    assert files == ["126", "PermissionError", "ok"]
    assert programs == ["PermissionError", "PermissionError", "ok"]
    assert sorted(os.listdir(project.folder / "out")) == ["whole-hand", "whole-shim"]
