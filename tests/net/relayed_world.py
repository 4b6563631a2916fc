"""What the relay of relayed.py leads to: servers that each do one thing, in a namespace."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import select
import signal
import socket
import struct
import time

from net.two_namespaces import ip
from unit.box.hellos import hello, records, server_name

ONE4, TWO4, ONE6 = "198.51.100.7", "198.51.100.8", "2001:db8::7"
#: Granted as well, and nobody is there.
GONE = "198.51.100.99"
WORLD = (ONE4, TWO4, ONE6)
ECHO, RESET, SUM, DEAF, GIVE, NOBODY = 443, 444, 446, 447, 448, 450
PORTS = (ECHO, RESET, SUM, DEAF, GIVE, NOBODY)
UNGRANTED, PROXY = 449, 3128
#: Made up by the resolver for names that the proxy knows.
MADE_UP = {
    "127.128.0.1": "api.test",
    "127.128.0.2": "plain.test",
    "127.128.0.3": "unknown.test",
    "127.128.0.4": "garbage.test",
}
GIVEN = 8 << 20
HELLO = records(hello([server_name(b"api.test")]))


def named(name: str) -> bytes:
    return records(hello([server_name(name.encode())]))


def world(ready: int, go: int) -> None:
    ctypes.CDLL(None).unshare(0x40000000)
    os.write(ready, b"1")
    os.read(go, 1)
    ip("link", "set", "lo", "up")
    for address in WORLD:
        length, options = (64, ("nodad",)) if ":" in address else (24, ())
        ip("addr", "add", f"{address}/{length}", "dev", "w0", *options)
    ip("link", "set", "w0", "up")
    servers = []
    for port in {*PORTS, UNGRANTED, PROXY} - {NOBODY}:
        server = socket.create_server(
            ("::", port), family=socket.AF_INET6, dualstack_ipv6=True, backlog=1024
        )
        servers.append(server)
        if os.fork() == 0:
            serve(server, port)
    os.write(ready, b"2")
    signal.pause()


def serve(server: socket.socket, port: int) -> None:
    """One process a port. Echo takes all its clients at once, the rest one after the other."""
    if port == PROXY:
        proxy(server)
    if port in (ECHO, UNGRANTED):
        echo(server)
    while True:
        client, _ = server.accept()
        with contextlib.suppress(OSError):
            one(client, port)
        client.close()


def one(client: socket.socket, port: int) -> None:
    greeting = client.recv(len(HELLO), socket.MSG_WAITALL)
    if port == RESET:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    elif port == SUM:  # answers when the client has said all, and only then
        digest = hashlib.sha256(greeting)
        time.sleep(0.2)  # until no buffer on the way takes any more
        while part := client.recv(65536):
            digest.update(part)
        client.sendall(digest.hexdigest().encode())
    elif port == DEAF:  # for longer than anybody writes
        time.sleep(1.2)
    elif port == GIVE:  # says all, then hears the client to its end
        client.sendall(bytes(range(256)) * (GIVEN // 256))
        client.shutdown(socket.SHUT_WR)
        while client.recv(65536):
            pass


def proxy(server: socket.socket) -> None:
    """A proxy that resolves names itself, wants a password, and answers in pieces."""
    hosts = {"api.test:443": ONE4, "plain.test:22": ONE4}
    while True:
        client, _ = server.accept()
        head = b""
        while b"\r\n\r\n" not in head and (part := client.recv(4096)):
            head += part
        target = head.split(b" ")[1].decode()
        if b"\r\nProxy-Authorization: Basic dXNlcjpwYXNz\r\n" not in head:
            client.sendall(b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n")
        elif target == "garbage.test:443":
            client.sendall(b"SSH-2.0-nonsense\r\n\r\n")
        elif target not in hosts:
            client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
        else:
            client.sendall(b"HTTP/1.1 2")
            time.sleep(0.02)
            client.sendall(b"00 OK\r\nVia: x\r\n\r\nfrom " + target.encode())
            with contextlib.suppress(OSError):
                while part := client.recv(65536):
                    client.sendall(part)
        client.close()


def echo(server: socket.socket) -> None:
    poll = select.epoll()
    poll.register(server, select.EPOLLIN)
    clients: dict[int, socket.socket] = {}
    while True:
        for fd, _ in poll.poll():
            if fd == server.fileno():
                client, _ = server.accept()
                clients[client.fileno()] = client
                poll.register(client, select.EPOLLIN)
                continue
            try:
                part = clients[fd].recv(65536)
                clients[fd].sendall(part)
            except OSError:
                part = b""
            if not part:
                clients.pop(fd).close()
