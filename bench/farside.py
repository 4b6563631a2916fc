"""What the connections of the bench lead to, and a proxy to compare with.

``farside.py servers`` listens on every address, one process a port, each of which does one
thing; ``farside.py proxy PORT`` is a small HTTP proxy as one writes it in Python. Both print
``ready`` and end with their standard input.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import sys
from collections.abc import Callable

__all__ = ["ASKED", "PULLED", "PULLED_BYTES", "TALKED"]

ASKED, PULLED, TALKED = 9001, 9002, 9003
PULLED_BYTES = 64 << 20


def answer(client: socket.socket) -> None:
    if client.recv(512):
        client.send(bytes(64))


def give(client: socket.socket) -> None:
    client.recv(512)
    block = bytes(1 << 18)
    for _ in range(PULLED_BYTES // len(block)):
        client.sendall(block)


def echo(client: socket.socket) -> None:
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    part = client.recv(512)
    part = part[5 + int.from_bytes(part[3:5], "big") :]  # without the hello
    client.sendall(part)
    while part := client.recv(512):
        client.sendall(part)


def listen(port: int, serve: Callable[[socket.socket], None]) -> int:
    """Serve in a process of its own; its pid."""
    server = socket.create_server(
        ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024
    )
    if pid := os.fork():
        return pid
    while True:
        client, _ = server.accept()
        with contextlib.suppress(OSError):
            serve(client)
        client.close()


def servers() -> None:
    served = ((ASKED, answer), (PULLED, give), (TALKED, echo))
    pids = [listen(port, serve) for port, serve in served]
    print("ready", flush=True)
    while os.read(0, 4096):
        pass
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


async def through(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        head = await reader.readuntil(b"\r\n\r\n")
        host, _, port = head.split(b" ")[1].decode().rpartition(":")
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(copy(reader, far_writer), copy(far_reader, writer))
        far_writer.close()
    writer.close()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await reader.read(1 << 18):
            writer.write(part)
            await writer.drain()
        writer.write_eof()


async def proxy(port: int) -> None:
    server = await asyncio.start_server(through, "127.0.0.1", port, backlog=1024)
    asyncio.get_running_loop().add_reader(0, lambda: os.read(0, 4096) or os._exit(0))
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    if sys.argv[1] == "servers":
        servers()
    else:
        asyncio.run(proxy(int(sys.argv[2])))
