"""A company's HTTP proxy: CONNECT only, resolves names itself, wants a password.

``connect_proxy.py PORT USER:PASSWORD NAME=ADDRESS...`` prints ``ready``, then a JSON line for
each request: its target, and the status it got.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import os
import socket
import sys

REASONS = {200: "OK", 403: "Forbidden", 407: "Proxy Authentication Required", 502: "Bad Gateway"}


class Proxy:
    """Who may come, and the names it knows."""

    def __init__(self, credentials: str, hosts: dict[str, str]) -> None:
        self._expected = b"Basic " + base64.b64encode(credentials.encode())
        self._hosts = hosts

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            head = await reader.readuntil(b"\r\n\r\n")
            target = head.split(b" ")[1].decode()
            host, _, port = target.rpartition(":")
            status = self._judge(head, host)
            onward = None
            if status == 200:
                try:
                    onward = await asyncio.open_connection(self._hosts[host], int(port))
                except OSError:
                    status = 502
            os.write(1, (json.dumps({"target": target, "status": status}) + "\n").encode())
            writer.write(f"HTTP/1.1 {status} {REASONS[status]}\r\n\r\n".encode())
            if onward:
                await asyncio.gather(pass_on(reader, onward[1]), pass_on(onward[0], writer))
        writer.close()

    def _judge(self, head: bytes, host: str) -> int:
        if b"\r\nProxy-Authorization: " + self._expected + b"\r\n" not in head:
            return 407
        return 200 if host in self._hosts else 403


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while part := await reader.read(65536):
            writer.write(part)
            await writer.drain()
        writer.write_eof()


async def main() -> None:
    port, credentials, *names = sys.argv[1:]
    proxy = Proxy(credentials, dict(name.split("=") for name in names))
    listener = socket.create_server(("::", int(port)), family=socket.AF_INET6, dualstack_ipv6=True)
    server = await asyncio.start_server(proxy.serve, sock=listener)
    # Whoever started this holds the other end of the standard input.
    asyncio.get_running_loop().add_reader(0, lambda: os.read(0, 65536) or os._exit(0))
    print("ready", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
