"""The side of a Python block that judges: takes its calls off a socket and makes them.

What comes is data of the model: JSON, bounded, checked word by word. Anything else ends the
conversation, and nothing but it.
"""

from __future__ import annotations

import base64
import binascii
import json
import socket
import struct
import sys
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import anyio

from axonkernel import errors
from axonkernel.box.child import CHANNEL
from axonkernel.errors import AxonError, ToolError

if TYPE_CHECKING:
    from axonkernel.kernel.kernel import Kernel
    from axonkernel.kernel.scope import Scope
    from axonkernel.process import ProcessResult

__all__ = ["run"]

_LENGTH = struct.Struct("!I")
#: One call; JSON takes up to thirty times its size once it is read.
_MOST_ASKED_BYTES = 8 * 1024 * 1024
_MOST_ANSWERED_BYTES = 64 * 1024 * 1024
_CHUNK_BYTES = 1 << 16
#: What the program of a block is given of this package: its errors, and what those import.
_MODULES = ("typed", "errors")
#: What a program may be told, by name and type.
_OPTIONS: dict[str, tuple[type, ...]] = {
    "raw": (bool,),
    "cwd": (str,),
    "env": (dict, type(None)),
    "timeout": (int, float, type(None)),
}


class _Broken(Exception):
    """The block is gone, or what it sent is no call."""


async def run(
    kernel: Kernel, source: str, scope: Scope, identity: str, timeout_s: float | None
) -> ProcessResult:
    """Run a Python block that has been let through. Raises as ``process.run`` does."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        # -I: neither the working directory nor the user's site adds to what it imports. The
        # source goes through the socket: a command line can be read by others.
        argv = (sys.executable, "-I", "-c", _text("kernel", "block_inside.py"), str(CHANNEL))
        plan = kernel.process.plans.fixed(argv, theirs.fileno())
        fault: Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(_serve, kernel, ours, source)
            try:
                result = await kernel.process.start(plan, scope, identity, None, timeout_s)
            except Exception as error:  # or it would come out of the group in a group
                fault = error
            group.cancel_scope.cancel()
    if fault is not None:
        raise fault
    return result


@cache
def _text(*names: str) -> str:
    return resources.files("axonkernel").joinpath(*names).read_text("utf-8")


async def _serve(kernel: Kernel, sock: socket.socket, source: str) -> None:
    """Hand ``source`` to the process at the other end of ``sock`` and answer its calls."""
    sock.setblocking(False)
    try:
        modules = [(name, _text(f"{name}.py")) for name in _MODULES]
        await _send(sock, {"source": source, "modules": modules})
        while True:
            await _send(sock, await _answer(kernel, await _receive(sock)))
    except (_Broken, OSError):
        return


async def _answer(kernel: Kernel, message: dict[str, Any]) -> dict[str, Any]:
    try:
        value = await _made(kernel, message)
        json.dumps(value)
        return {"value": value}
    except AxonError as error:
        return {"error": _told(error)}
    except (TypeError, ValueError, RecursionError) as error:
        return {"error": _told(ToolError("block", f"what came of it is no JSON data: {error}"))}


async def _made(kernel: Kernel, message: dict[str, Any]) -> Any:
    """What a call comes to."""
    if isinstance(message.get("call"), str) and isinstance(message.get("args"), dict):
        return await kernel.call(message["call"], **message["args"])
    words = message.get("run")
    if not isinstance(words, str) and not (isinstance(words, list) and all(map(_is_word, words))):
        raise _Broken("neither a tool nor a program")
    return _as_data(await kernel.process.run(words, **_options(message)))


def _is_word(word: object) -> bool:
    return isinstance(word, str)


def _options(message: dict[str, Any]) -> dict[str, Any]:
    options = {name: message.get(name) for name in _OPTIONS if name in message}
    for name, value in options.items():
        if not isinstance(value, _OPTIONS[name]):
            raise ToolError("process", f"{name} is not what it must be: {value!r}")
    env = options.get("env") or {}
    if not all(map(_is_word, env.values())):
        raise ToolError("process", "env holds something that is no text")
    data = message.get("input")
    if data is not None:
        try:
            options["input"] = base64.b64decode(data, validate=True)
        except (TypeError, ValueError, binascii.Error):
            raise _Broken("input is not base64") from None
    return options


def _as_data(result: ProcessResult) -> dict[str, Any]:
    return {
        "exit_code": result.exit_code,
        "stdout": base64.b64encode(result.stdout).decode(),
        "stderr": base64.b64encode(result.stderr).decode(),
        "notes": result.notes,
        "held_by": result.held_by,
    }


def _told(error: AxonError) -> list[Any]:
    """An error as its class and what that is made with: texts that the agent may see."""
    kind = type(error)
    if kind.__name__ in ("BoxError", "IsolationUnavailable", "PolicyError"):
        return ["ToolError", ["kernel", "the program could not be started"]]  # for the operator
    if kind.__name__ not in errors.__all__ or not kind._fields:
        return ["AxonError", [str(error)]]
    return [kind.__name__, [getattr(error, name) for name in kind._fields]]


async def _send(sock: socket.socket, message: dict[str, Any]) -> None:
    body = json.dumps(message).encode()
    if len(body) > _MOST_ANSWERED_BYTES:
        what = f"what came of it is more than {_MOST_ANSWERED_BYTES} bytes"
        body = json.dumps({"error": _told(ToolError("block", what))}).encode()
    left = memoryview(_LENGTH.pack(len(body)) + body)
    while left:
        try:
            left = left[sock.send(left) :]
        except BlockingIOError:
            await anyio.wait_writable(sock)


async def _receive(sock: socket.socket) -> dict[str, Any]:
    (length,) = _LENGTH.unpack(await _read(sock, _LENGTH.size))
    if length > _MOST_ASKED_BYTES:
        raise _Broken(f"a call of {length} bytes")
    try:
        message = json.loads(await _read(sock, length))
    except (ValueError, RecursionError) as error:
        raise _Broken(str(error)) from error
    if not isinstance(message, dict):
        raise _Broken("no JSON object")
    return message


async def _read(sock: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        try:
            part = sock.recv(min(size - len(parts), _CHUNK_BYTES))
        except BlockingIOError:
            await anyio.wait_readable(sock)
            continue
        if not part:
            raise _Broken("the block has ended")
        parts += part
    return bytes(parts)
