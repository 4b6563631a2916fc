"""Connections of a process in a box, and of its twin outside; standard library only.

Its text is handed to ``python3 -c``, so nothing of this project need exist in the box. A line
in is a task and its words, a line out the seconds it took. Every connection begins with a
ClientHello, which the server reads and ignores, so that a relay that wants one has it.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Callable

ANSWER_BYTES = 64
#: Where to go: an address or a name, a port, and a proxy on the way (``-`` for none).
Place = tuple[str, str, str]


def hello(name: str) -> bytes:
    """A ClientHello that asks for a server name, and nothing else."""
    entry = b"\0" + sized(name.encode())
    extension = b"\0\0" + sized(sized(entry))
    body = b"\x03\x03" + bytes(33) + sized(b"\x13\x01") + b"\x01\0" + sized(extension)
    return b"\x16\x03\x01" + sized(b"\x01\0" + sized(body))


def sized(content: bytes) -> bytes:
    return len(content).to_bytes(2, "big") + content


def connected(host: str, port: str, proxy: str) -> socket.socket:
    client = socket.socket()
    client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if proxy == "-":
        client.connect((host, int(port)))
        return client
    client.connect(("127.0.0.1", int(proxy)))
    client.sendall(f"CONNECT {host}:{port} HTTP/1.1\r\n\r\n".encode())
    said = b""
    while not said.endswith(b"\r\n\r\n"):
        said += client.recv(4096)
    return client


def ask(*words: str) -> None:
    """New connections, one after the other, each with a question and its answer."""
    *place, count = words
    address = socket.gethostbyname(place[0])
    question = hello(place[0])
    for _ in range(int(count)):
        client = connected(address, place[1], place[2])
        client.sendall(question)
        taken = 0
        while taken < ANSWER_BYTES:
            taken += len(client.recv(ANSWER_BYTES)) or ANSWER_BYTES
        client.close()


def begin(host: str, port: str, proxy: str, count: str) -> None:
    """New connections, one after the other, on which nothing is said."""
    for _ in range(int(count)):
        connected(host, port, proxy).close()


def pull(host: str, port: str, proxy: str, _: str) -> None:
    """One connection, on which the server sends all it has."""
    address = socket.gethostbyname(host)
    with connected(address, port, proxy) as client:
        client.sendall(hello(host))
        into = bytearray(1 << 18)
        while client.recv_into(into):
            pass


def talk(host: str, port: str, proxy: str, count: str) -> None:
    """One connection, on which one byte goes there and back, again and again."""
    address = socket.gethostbyname(host)
    with connected(address, port, proxy) as client:
        client.sendall(hello(host))
        for _ in range(int(count)):
            client.sendall(b"x")
            client.recv(1)


def refused(host: str, port: str, _: str, count: str) -> None:
    """Connections that nobody takes."""
    for _ in range(int(count)):
        with socket.socket() as client:
            assert client.connect_ex((host, int(port)))


def resolve(server: str, name: str, _: str, count: str) -> None:
    """Questions about one name, one after the other."""
    labels = b"".join(bytes([len(label)]) + label.encode() for label in name.split("."))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
        client.connect((server, 53))
        client.settimeout(5)
        for number in range(int(count)):
            head = (number & 0xFFFF).to_bytes(2, "big") + b"\1\0\0\1\0\0\0\0\0\0"
            client.send(head + labels + b"\0\0\1\0\1")
            client.recv(512)


TASKS: dict[str, Callable[..., None]] = {
    "ask": ask, "begin": begin, "pull": pull, "talk": talk, "refused": refused,
    "resolve": resolve,
}  # fmt: skip

for line in sys.stdin:
    task, *given = line.rstrip("\n").split("\t")
    begun_s = time.perf_counter()
    TASKS[task](*given)
    print(time.perf_counter() - begun_s, flush=True)
