"""The first code of a Python block's process: a ``kernel`` that is judged outside, then the block.

This text is the whole program (``python -I -c TEXT FD``): axonkernel does not exist where it
runs. The block finds ``kernel`` and the errors among its names; ``from axonkernel import
PolicyDenied`` works too. Nothing here is a wall: a block that takes it apart has a socket on
which it can ask, and every answer is the mediator's.
"""

from __future__ import annotations

import base64
import json
import linecache
import os
import socket
import struct
import sys
import threading
import traceback
import types
from typing import Any

_LENGTH = struct.Struct("!I")
#: What the other side takes in one message.
_MOST_BYTES = 8 * 1024 * 1024
_NAME = "<block>"


class Result:
    """What a program that was run returned, as ``kernel.process.run`` has it."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self.exit_code: int = fields["exit_code"]
        self.stdout = base64.b64decode(fields["stdout"])
        self.stderr = base64.b64decode(fields["stderr"])
        self.notes = tuple(fields["notes"])
        self.held_by = tuple(fields["held_by"])

    ok = property(lambda self: self.exit_code == 0)
    text = property(lambda self: self.stdout.decode("utf-8", "replace"))
    error_text = property(lambda self: self.stderr.decode("utf-8", "replace"))

    def __repr__(self) -> str:
        return f"Result(exit_code={self.exit_code}, {len(self.stdout)} bytes)"


class Asking:
    """The socket to the mediator: one question at a time, from any thread of this process."""

    def __init__(self, sock: socket.socket) -> None:
        self.errors: Any = None
        self._sock = sock
        self._lock = threading.Lock()
        self._pid = os.getpid()

    def ask(self, question: dict[str, Any]) -> Any:
        """The answer, or the error that came instead of it."""
        if os.getpid() != self._pid:
            raise RuntimeError("the kernel belongs to the process of the block itself")
        body = json.dumps(question).encode()
        if len(body) > _MOST_BYTES:
            raise self.errors.ToolError("block", f"a call of more than {_MOST_BYTES} bytes")
        with self._lock:
            self._sock.sendall(_LENGTH.pack(len(body)) + body)
            answer = self.receive()
        if "error" in answer:
            kind, fields = answer["error"]
            raise getattr(self.errors, kind)(*fields)
        return answer["value"]

    def receive(self) -> dict[str, Any]:
        """The next message."""
        (length,) = _LENGTH.unpack(self._read(_LENGTH.size))
        message: dict[str, Any] = json.loads(self._read(length))
        return message

    def _read(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._sock.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise ConnectionError("the kernel is gone")
            parts += part
        return bytes(parts)


class Process:
    """``kernel.process``: programs, under the policy."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking

    def run(
        self,
        command: str | list[str],
        *,
        raw: bool = False,
        cwd: str = ".",
        env: dict[str, str] | None = None,
        input: bytes | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Run a program to its end; see ``Kernel.process.run``."""
        data = None if input is None else base64.b64encode(input).decode()
        options = {"raw": raw, "cwd": cwd, "env": env, "input": data, "timeout": timeout}
        words = command if isinstance(command, str) else list(command)
        return Result(self._asking.ask({"run": words, **options}))


class Kernel:
    """The mediator, asked from a block. Its calls return when they are done: no ``await``."""

    def __init__(self, asking: Asking) -> None:
        self._asking = asking
        self.process = Process(asking)

    def call(self, name: str, /, **args: Any) -> Any:
        """Call a tool. Raises PolicyDenied where it may not run, ToolError where it failed."""
        return self._asking.ask({"call": name, "args": args})


def main(fd: int) -> None:
    """Run the block that the other end of ``fd`` sends."""
    sock = socket.socket(fileno=fd)
    sock.set_inheritable(False)
    asking = Asking(sock)
    hello = asking.receive()
    package = sys.modules["axonkernel"] = types.ModuleType("axonkernel")
    package.__path__ = []
    for name, text in hello["modules"]:
        module = sys.modules[f"axonkernel.{name}"] = types.ModuleType(f"axonkernel.{name}")
        setattr(package, name, module)
        exec(compile(text, module.__name__, "exec"), module.__dict__)
    asking.errors = sys.modules["axonkernel.errors"]
    names = {name: getattr(asking.errors, name) for name in asking.errors.__all__}
    names["kernel"] = Kernel(asking)
    package.__dict__.update(names)
    _run(hello["source"], names)


def _run(source: str, names: dict[str, Any]) -> None:
    block = types.ModuleType("__main__")
    block.__dict__.update(names)
    sys.modules["__main__"] = block
    sys.argv = [_NAME]
    linecache.cache[_NAME] = (len(source), None, source.splitlines(keepends=True), _NAME)
    try:
        exec(compile(source, _NAME, "exec"), block.__dict__)
    except SystemExit:
        raise
    except BaseException as error:
        # Where the block is at fault, its own lines are all there is to see.
        within = error.__traceback__.tb_next if error.__traceback__ else None
        traceback.print_exception(type(error), error, within)
        sys.exit(1)


if __name__ == "__main__":
    main(int(sys.argv[1]))
