"""Handlers that workers import, and what they return and raise."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import anyio
import attrs

from axonkernel import Kernel, ReadPath, define_agent

IMPORTED_IN = os.getpid()


class Colour(enum.Enum):
    RED = "red"


@attrs.frozen
class Finding:
    path: str
    line: int
    inner: Any = None


@dataclasses.dataclass
class Report:
    findings: list[Finding]


class Pair(NamedTuple):
    one: int
    two: int


class OwnFault(Exception):
    """An error of the application, with a field of its own."""

    def __init__(self, text: str, code: int) -> None:
        super().__init__(text)
        self.code = code


class Loaded:
    """No class of fields: what it holds could do anything."""


VALUES: dict[str, Any] = {
    "plain": {"a": [1, 2.5, None, True, "x\ud800"], "b": (b"\0\xff", bytearray(b"z"), {1}, 1j)},
    "times": [datetime.datetime(2026, 1, 2, 3, 4), datetime.timedelta(days=1), range(3)],
    "fields": Report([Finding("a", 1, Finding("b", 2))]),
    "others": [Colour.RED, Pair(1, 2), Path("/a/b"), frozenset({1})],
}
ERRORS: dict[str, Exception] = {
    "own": OwnFault("text", 7),
    "key": KeyError("k"),
    "os": FileNotFoundError(2, "not there", "/x"),
    "decode": UnicodeDecodeError("utf-8", b"\xff", 0, 1, "why"),
    "group": ExceptionGroup("many", [ValueError(1), OwnFault("in it", 3)]),
}

agent = define_agent(
    "workers",
    {
        "fs": {"read": ["."], "write": ["out"]},
        "shell": {"allow": ["cat", "sleep", "true", "sh"], "raw": True, "spawn": True},
        "tools": {"fs": {"read": True}, "own": {"first": True, "asked": "escalate"}},
        "env": {"allow": ["MODE", "TOKEN"]},
        "escalation": {"headless": "deny"},
    },
    base=os.environ.get("AXON_TEST_FOLDER", "/nonexistent"),
)


@agent.tool("own.first")
def first(path: Annotated[str, ReadPath]) -> str:
    """The first character of a file, and who read it."""
    with open(path) as file:
        return f"{file.read(1)} {os.getpid() == IMPORTED_IN}"


@agent.tool("own.asked")
async def asked(word: str) -> str:
    """Needs a person."""
    return word.upper()


@agent.handler
async def handle(kernel: Kernel, request: Any) -> Any:
    """Does what the request names."""
    what, *args = request
    return await globals()[f"do_{what}"](kernel, *args)


async def do_value(kernel: Kernel, name: str) -> Any:
    return VALUES[name]


async def do_raise(kernel: Kernel, name: str) -> Any:
    raise ERRORS[name]


async def do_return(kernel: Kernel, what: str) -> Any:
    return {"object": Loaded(), "lambda": lambda: 1, "self": kernel}[what]


async def do_exit(kernel: Kernel) -> Any:
    sys.exit(3)


async def do_die(kernel: Kernel) -> Any:
    os.kill(os.getpid(), signal.SIGKILL)
    os._exit(9)  # pid 1 of a namespace cannot kill itself


async def do_big(kernel: Kernel, size: int) -> Any:
    return bytes(size)


async def do_where(kernel: Kernel) -> Any:
    return os.getpid(), IMPORTED_IN, os.path.realpath("/proc/self/ns/pid")


async def do_read(kernel: Kernel, path: str) -> Any:
    return Path(path).read_text()


async def do_call(kernel: Kernel, name: str, args: dict[str, Any]) -> Any:
    return await kernel.call(name, **args)


async def do_run(kernel: Kernel, command: Any) -> Any:
    return await kernel.process.run(command, raw=isinstance(command, str))


async def do_run_all(kernel: Kernel, commands: list[Any]) -> Any:
    results = []

    async def one(command: Any) -> None:
        results.append((await kernel.process.run(command)).exit_code)

    async with anyio.create_task_group() as group:
        for command in commands:
            group.start_soon(one, command)
    return results


async def do_spawn(kernel: Kernel, command: Any) -> Any:
    spawned = await kernel.process.spawn(command)
    running = spawned.running
    spawned.kill()
    return running, spawned.running, (await spawned.wait()).exit_code


async def do_environ(kernel: Kernel) -> Any:
    printed = await kernel.process.run(["sh", "-c", "echo $MODE-$TOKEN"])
    return os.environ.get("MODE"), os.environ.get("TOKEN"), printed.text.strip()


async def do_nested(kernel: Kernel, request: Any, policy: Any) -> Any:
    return await kernel.request(request, policy=policy)


async def do_narrowed(kernel: Kernel, request: Any, policy: Any) -> Any:
    with kernel.narrow(policy) as less:
        return await handle(less, request)


async def do_check(kernel: Kernel, path: str) -> Any:
    from axonkernel import Request

    rows = [list(row) for row in kernel.posture()]
    return kernel.check(Request.read(path)).verdict, rows


async def do_print(kernel: Kernel, text: str) -> Any:
    print(text)
    print(text, file=sys.stderr)
    subprocess.run(["/usr/bin/cat"], input=text.encode(), check=False)


async def do_sleep(kernel: Kernel, seconds: float) -> Any:
    await anyio.sleep(seconds)


#: Detaches itself in every way, and writes until it is killed.
ESCAPE = """
import os, sys, time
for _ in range(2):
    if os.fork(): os._exit(0)
    os.setsid()
while True:
    open(sys.argv[1], "w").write(str(time.monotonic()))
    time.sleep(0.01)
"""


async def do_leave(kernel: Kernel, path: str, then: list[Any]) -> Any:
    """Leave a process behind that has detached itself, and go on."""
    pid = os.fork()
    if pid == 0:
        sys.argv[1:] = [path]
        try:
            exec(ESCAPE)
        finally:
            os._exit(1)
    os.waitpid(pid, 0)
    while not os.path.exists(path):
        await anyio.sleep(0.01)
    return await handle(kernel, then) if then else time.monotonic()


async def do_send(kernel: Kernel, kind: int, body: bytes) -> Any:
    """Say something to the kernel outside that no worker of ours says."""
    import struct

    os.write(3, struct.pack("!BQ", kind, len(body)) + body)
    await anyio.sleep(30)


async def do_ask(kernel: Kernel, what: str, args: Any) -> Any:
    """Ask the kernel outside for something, as a worker that is not ours would."""
    return await anyio.to_thread.run_sync(lambda: kernel._link.ask(what, *args))  # type: ignore[attr-defined]
