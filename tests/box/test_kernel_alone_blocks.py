"""Blocks of code that a model wrote: behind the walls, with a kernel that is judged outside."""

from __future__ import annotations

import textwrap
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from axonkernel import Kernel, LimitExceeded, PolicyDenied, ToolError
from axonkernel.audit.verify import verify
from lab.agents import Project

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

POLICY: dict[str, Any] = {
    "fs": {"read": ["."], "write": ["./out"], "deny": ["./secret.txt"]},
    "net": {"allow": []},
    "shell": {"allow": ["cat", "sh", "sleep"], "args": {"cat": {"deny": ["b.txt"]}}},
    "tools": {"fs": {"read": True, "write": True}, "block": True, "*": False},
}


@pytest.fixture
def ws(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / "out").mkdir(parents=True)
    for name in ("a", "b"):
        (folder / f"{name}.txt").write_text(f"text of {name}")
    (folder / "secret.txt").write_text("SECRET-5")
    return folder


@pytest.fixture
def kernel(ws: Path, tmp_path: Path) -> Iterator[Kernel]:
    with Kernel(POLICY, cwd=ws, audit=tmp_path / "log") as kernel:
        yield kernel
    assert verify(tmp_path / "log") == ()


def block(kernel: Kernel, source: str, **options: Any) -> list[str]:
    """The lines a block prints; it must end well."""
    result = kernel.run_block_sync("python", textwrap.dedent(source), **options)
    assert result.ok, result.error_text
    return result.text.splitlines()


def test_a_block_calls_tools_and_programs(kernel: Kernel, ws: Path) -> None:
    """What is allowed returns its value, also from threads; what is denied raises in the block."""
    lines = block(
        kernel,
        """
        import threading
        from axonkernel import PolicyDenied as Denied
        print(kernel.call("fs.read", path="a.txt"))
        kernel.call("fs.write", path="out/made", text="by the block")
        ran = kernel.process.run(["cat"], input=b"given")
        print(ran.ok, ran.text, "fs" in ran.held_by)
        for call in (
            lambda: kernel.call("fs.read", path="secret.txt"),
            lambda: kernel.call("fs.remove", path="out/made"),
            lambda: kernel.process.run(["cat", "b.txt"]),
            lambda: kernel.process.run("cat a.txt | cat", raw=True),
        ):
            try: call()
            except Denied as denied: print(denied.code, denied.retryable, bool(denied.decision_id))
        try: kernel.call("fs.read", path="none.txt")
        except ToolError as error: print(type(error).__name__)
        read = []
        def more(): read.append(kernel.call("fs.read", path="a.txt"))
        threads = [threading.Thread(target=more) for _ in range(8)]
        for thread in threads: thread.start()
        for thread in threads: thread.join()
        print(len(read), set(read))
        """,
    )
    assert lines == [
        "text of a",
        "True given True",
        "fs.read True True",
        "tool False True",
        "shell.args True True",
        "shell.raw True True",
        "ToolError",
        "8 {'text of a'}",
    ]
    assert (ws / "out/made").read_text() == "by the block"


def test_a_block_is_behind_the_walls(kernel: Kernel) -> None:
    """Its own code reads what is granted and no more, reaches nothing, and leaves nothing."""
    lines = block(
        kernel,
        """
        import os, socket, subprocess
        print(open("a.txt").read())
        for call in (
            lambda: open("secret.txt").read(),
            lambda: open("b.txt", "w"),
            lambda: open("/etc/shadow"),
            lambda: subprocess.run(["git"]),
            lambda: socket.create_connection(("192.0.2.1", 80), 1),
        ):
            try: print("no wall", call())
            except OSError as error: print(type(error).__name__)
        subprocess.Popen(["sleep", "60"])
        """,
    )
    assert lines[0] == "text of a" and len(lines) == 6
    assert not any("no wall" in line for line in lines)


def test_a_narrowed_block_is_narrowed_in_both(kernel: Kernel) -> None:
    """Its calls and its own code have what is left of the grants."""
    source = """
        def tried(call):
            try: return call()
            except Exception as error: return type(error).__name__
        print(tried(lambda: kernel.call("fs.read", path="a.txt")))
        print(tried(lambda: open("a.txt").read()))
        print(tried(lambda: kernel.call("fs.read", path="b.txt")))
        """
    with kernel.narrow({"fs": {"read": ["./b.txt"]}}) as view:
        assert block(view, source) == ["PolicyDenied", "FileNotFoundError", "text of b"]
    assert block(kernel, source)[0] == "text of a"


def test_the_end_of_a_block(kernel: Kernel) -> None:
    """Its exit code, its error without our lines, its timeout, and what it started then."""
    failed = kernel.run_block_sync("python", "def f():\n    return 1 / 0\nf()")
    assert failed.exit_code == 1 and "return 1 / 0" in failed.error_text
    assert failed.error_text.count("File") == 2, failed.error_text
    assert kernel.run_block_sync("python", "import sys; sys.exit(7)").exit_code == 7
    assert kernel.run_block_sync("python", "not python").exit_code == 1
    started = time.monotonic()
    with pytest.raises(LimitExceeded):
        kernel.run_block_sync("python", "kernel.process.run(['sleep', '60'])", timeout=0.7)
    assert time.monotonic() - started < 20
    with pytest.raises(ToolError):
        kernel.run_block_sync("cobol", "")
    with kernel.narrow({"tools": {"*": False}}) as view, pytest.raises(PolicyDenied) as caught:
        view.run_block_sync("python", "open('out/ran', 'w')")
    assert caught.value.code == "tool"


#: What a block can say instead of a call.
WRONG = {
    "no frame": "s.send(b'\\xff' * 64)",
    "no JSON": "say(b'{')",
    "deep": "say(b'[' * 100000)",
    "a list": "say(b'[]')",
    "no call": 'say(b\'{"call": 1, "args": []}\')',
    "no words": 'say(b\'{"run": {"a": 1}}\')',
    "too much": "s.send(struct.pack('!I', 1 << 30) + b'x' * 1000)",
    "half": "s.send(struct.pack('!I', 100) + b'{')",
    "a flood": "[s.send(b'\\x00\\x00\\x00\\x02{}') for _ in range(10)]",
}


def test_what_is_no_call_ends_the_conversation(kernel: Kernel) -> None:
    """And nothing else: the block goes on, and so does this process."""
    head = (
        "import socket, struct\ns = socket.socket(fileno=3)\n"
        "def say(body): s.sendall(struct.pack('!I', len(body)) + body)\n"
    )

    async def main() -> None:
        async def one(what: str) -> None:
            source = f"{head}try: {what}\nexcept OSError: pass\nprint('went on')"
            result = await kernel.run_block("python", source)
            assert (result.text, result.exit_code) == ("went on\n", 0), (what, result.error_text)

        async with anyio.create_task_group() as group:
            for what in WRONG.values():
                group.start_soon(one, what)

    anyio.run(main)
    assert block(kernel, "print(kernel.call('fs.read', path='a.txt'))") == ["text of a"]


TRIED = """
import os
def tried(call):
    try: return call()
    except Exception as error: return type(error).__name__
print(tried(lambda: kernel.call("fs.read", path="a.txt")))
print(tried(lambda: open("a.txt").read()))
print(tried(lambda: os.kill(os.getppid(), 0)))
print(tried(lambda: kernel.process.run(["cat", "a.txt"]).text))
print(tried(lambda: kernel.process.run(["sh"]).text))
"""
IN_AN_AGENT = f"""
source = {TRIED!r}
plain = await kernel.run_block("python", source)
with kernel.narrow({{"fs": {{"read": ["./out"]}}}}) as small:
    narrowed = await small.run_block("python", source)
return [[r.text.splitlines(), r.walls, r.error_text] for r in (plain, narrowed)]
"""


def test_blocks_of_an_agent_in_a_box(tmp_path: Path) -> None:
    """There they are confined by Landlock: no signal to the agent, and what was narrowed is
    closed; their calls are the agent's own."""
    project = Project(tmp_path / "home")
    project.write("a.txt", "text of a")
    policy = {"fs": {"read": ["."], "write": ["./out"]}, "shell": {"allow": ["cat", "python3"]}}
    project.agent(policy, IN_AN_AGENT)
    ended = project.run_agent()
    assert ended.code == 0, ended.err
    (plain, walls, errors), (narrowed, also, _) = ended.value
    assert walls == also == ["mediator", "box", "landlock"]
    assert plain == ["text of a", "text of a", "PermissionError", "text of a", "PolicyDenied"], (
        errors
    )
    assert narrowed == ["PolicyDenied", "PermissionError", "PermissionError", "", "PolicyDenied"]
