"""Given to the Python of a box: tries connections by TLS, prints what came of each as JSON."""

from __future__ import annotations

import errno
import json
import os
import socket
import ssl
import sys
from typing import Any

MARK = 0x61786F6E


def tls(host: str, port: int, name: str | None) -> Any:
    """Connect to a host and ask for a server name; the peer's address and what it says."""
    context = ssl.create_default_context(cafile="ca.pem")
    context.check_hostname = name is not None
    with socket.create_connection((host, port), 5) as sock:
        peer = sock.getpeername()[0]
        with context.wrap_socket(sock, server_hostname=name) as session:
            session.sendall(b"GET / HTTP/1.1\r\n\r\n")
            return [peer, session.recv(4096).rpartition(b"\r\n\r\n")[2].decode().strip()]


def plain(host: str, port: int, text: str) -> str:
    """Connect and speak in clear; what comes back."""
    with socket.create_connection((host, port), 5) as sock:
        sock.sendall(text.encode())
        return sock.recv(4096).decode()


def marked(address: str, port: int) -> str:
    """Connect by a socket with the relay's mark."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_MARK, MARK)
        sock.settimeout(5)
        sock.connect((address, port))
        return "connected"


def datagram(host: str, port: int) -> str:
    """Send a datagram to a host."""
    family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, socket.SOCK_DGRAM) as sock:
        sock.settimeout(1)
        sock.connect(place)
        sock.send(b"x")
        return sock.recv(10).decode()


def bound(port: int) -> str:
    """Take the relay's place."""
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(("127.0.0.1", port))
        return "bound"


def holding(backwards: str) -> list[str]:
    """Files of /proc, and variables, in which a text can be read; it comes backwards, so that
    our own words do not hold it."""
    text, found = backwards[::-1], []
    for pid in (name for name in os.listdir("/proc") if name.isdigit()):
        for file in ("environ", "cmdline"):
            try:
                with open(f"/proc/{pid}/{file}", "rb") as opened:
                    if text.encode() in opened.read():
                        found.append(f"{pid}/{file}")
            except OSError:
                continue
    return found + [name for name, value in os.environ.items() if text in value]


def come_of(what: str, *words: Any) -> Any:
    try:
        return globals()[what](*words)
    except ssl.SSLError as error:
        return f"SSLError {error.reason}"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)


for attempt in json.loads(sys.argv[1]):
    print(json.dumps(come_of(*attempt)), flush=True)
