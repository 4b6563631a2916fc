"""What a narrowed request starts in an agent's box is held to what is left of its grants.

One agent, one box; each line of Python runs in a program of the un-narrowed and of the narrowed
request, so that each refusal has its twin.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from lab.agents import Project
from lab.user import OrdinaryUser

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

PYTHON = os.path.realpath(sys.executable)
#: Prints what came of each line of its input: ok, or the name of the errno.
TRY = """
import ctypes, errno, json, os, signal, socket, subprocess, sys
def outcome(line):
    try: exec(line, globals())
    except OSError as error: return errno.errorcode[error.errno]
    except Exception as error: return repr(error)
    return "ok"
print(json.dumps([outcome(line) for line in json.load(sys.stdin)]))
"""
POLICY: dict[str, Any] = {
    "default": "deny",
    "fs": {"read": ["./src"], "write": ["./out"]},
    "shell": {"allow": ["touch", "cat", PYTHON], "spawn": True},
    "env": {"allow": ["TOKEN"]},
}
HANDLER = """
tries = json.loads({tries!r})
lines = json.dumps(tries).encode()
async def run(kernel):
    done = await kernel.process.run([{python!r}, "-ISc", {code!r}], input=lines)
    return [json.loads(done.text or "null"), done.held_by, done.walls, done.error_text]
os.environ["LEAK"] = "SECRET-13"
server = socket.create_server(("127.0.0.1", 4455))
named = socket.socket(socket.AF_UNIX)
named.bind("/tmp/named.sock")
named.listen()
before = await run(kernel)
with kernel.narrow({{"fs": {{"read": ["./src"], "deny": ["./src/out.txt"]}}, "net": {{"allow": []}},
                    "shell": {{"allow": ["touch", {python!r}]}}, "env": {{"allow": []}}}}) as small:
    narrowed = [await run(small), await run(small)]
after = await run(kernel)
return [before, narrowed, after]
"""
#: Line -> what it comes to for the narrowed request; all succeed for the other.
TRIES = {
    "open('src/a/in.txt').read()": "ok",
    "open('src/out.txt').read()": "EACCES",
    "os.listdir('src')": "ok",
    "os.listdir('out')": "EACCES",
    "open('out/made', 'w').close()": "EACCES",
    "os.truncate('out/kept', 0)": "EACCES",
    "open('/tmp/more', 'w')": "ok",
    "open(f'/proc/{os.getppid()}/environ', 'rb').read()": "EACCES",
    "subprocess.run(['/usr/bin/cat', 'src/a/in.txt'], check=True, stdout=-3)": "EACCES",
    "os.posix_spawn('/usr/bin/cat', ['cat', '/dev/null'], {})": "EACCES",
    "subprocess.run(['touch', os.environ.get('TMPDIR', '/tmp') + '/t'], check=True)": "ok",
    f"subprocess.run([{PYTHON!r}, '-ISc', 'open(\"src/out.txt\")'], stderr=-3, check=1)": "child",
    "os.kill(1, 0)": "EPERM",
    "os.environ['TOKEN']": "key",
}
#: The same of the network.
NET_TRIES = {
    "socket.create_connection(('127.0.0.1', 4455), 3)": "EACCES",
    "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)": "EACCES",
    "socket.socket(socket.AF_INET6)": "EACCES",
    "socket.socket(socket.AF_UNIX).connect('/tmp/named.sock')": "EACCES",
    "socket.socketpair()": "ok",
}


def is_as_told(answer: str, told: str) -> bool:
    return {"child": "CalledProcessError" in answer, "key": "KeyError" in answer}.get(
        told, answer == told
    )


def holds(project: Project, tries: dict[str, str], net: list[str]) -> None:
    """Every attempt of a table, by a program of each of the two requests."""
    project.write("src/a/in.txt", "in")
    project.write("src/out.txt", "SECRET-11")
    project.write("out/kept", "kept")
    project.env["TOKEN"] = "tok"
    body = HANDLER.format(tries=json.dumps(list(tries)), python=PYTHON, code=TRY)
    project.agent({**POLICY, "net": {"allow": net}}, body)
    ended = project.run_agent()
    assert ended.code == 0, ended.err
    before, narrowed, after = ended.value
    for answers, held, walls, _ in (before, after):
        assert answers == ["ok"] * len(tries), dict(zip(tries, answers, strict=True))
        assert walls == ["mediator", "box"] and {"fs", "net", "shell", "env"} <= set(held)
    for answers, held, walls, errors in narrowed:
        assert answers is not None, errors
        wrong = {
            line: answer
            for (line, told), answer in zip(tries.items(), answers, strict=True)
            if not is_as_told(answer, told)
        }
        assert not wrong
        assert walls == ["mediator", "box", "landlock"]
        assert {"fs", "net", "shell", "env", "seccomp"} <= set(held)


def test_narrowed_programs_lose_what_was_not_granted(tmp_path: Path) -> None:
    """Under a root supervisor: files, programs, network, sockets, signals, environment."""
    holds(Project(tmp_path / "home"), {**TRIES, **NET_TRIES}, ["127.0.0.1:4455"])


def test_narrowed_programs_of_an_ordinary_users_agent(ordinary_user: OrdinaryUser) -> None:
    """The same without privilege."""

    def write(path: Path, text: str) -> None:
        script = 'mkdir -p "$(dirname "$1")" && cat > "$1"'
        ordinary_user.run(["sh", "-c", script, "sh", str(path)], input=text)

    # Such a user may have no link to make, so both requests have no network.
    holds(Project(ordinary_user.home / "home", ordinary_user.run, write), TRIES, [])
