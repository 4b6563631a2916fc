"""What a box does to its relay: the scenes that relayed.py plays."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

from net.relayed_world import (
    DEAF,
    ECHO,
    GIVE,
    GIVEN,
    GONE,
    HELLO,
    MADE_UP,
    NOBODY,
    ONE4,
    ONE6,
    PROXY,
    RESET,
    SUM,
    TWO4,
    UNGRANTED,
    WORLD,
    named,
)
from unit.box.hellos import hello, records, server_name


def connect(address: str = ONE4, port: int = ECHO) -> socket.socket:
    client = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
    client.settimeout(10)
    client.connect((address, port))
    return client


def all_of(client: socket.socket, count: int) -> bytes:
    """So many bytes, or those until the end."""
    got = b""
    while len(got) < count and (part := client.recv(count - len(got))):
        got += part
    return got


def asked(data: bytes, address: str = ONE4, port: int = ECHO) -> str:
    """What comes back for some bytes: ``echo``, ``end`` or the name of the error."""
    try:
        with connect(address, port) as client:
            client.sendall(data)
            back = all_of(client, len(data))
    except OSError as error:
        return type(error).__name__
    return "echo" if back == data else f"end after {len(back)}"


def peers() -> list[Any]:
    """The address a program sees is the one it asked for."""
    found = []
    for address in (ONE4, ONE6):
        with connect(address) as client:
            found.append(client.getpeername()[:2])
    return found


def names() -> dict[str, str]:
    """Granted ones, others, none, and none at all."""
    return {
        "granted": asked(named("api.test")),
        "granted6": asked(named("api.test"), ONE6),
        "granted, other address": asked(named("web.test"), TWO4),
        "capitals, a dot": asked(named("API.Test.")),
        "in small records": asked(records(hello([server_name(b"api.test")]), [1, 2, 3, 5, 8])),
        "other": asked(named("evil.test")),
        "other6": asked(named("evil.test"), ONE6),
        "below": asked(named("x.api.test")),
        "none": asked(records(hello([]))),
        "plain": asked(b"GET / HTTP/1.1\r\n\r\n"),
        "wrong": asked(b"\x16\x03\x01\x00\x00"),
        "the relay itself": asked(HELLO, "127.0.0.1", 1023),
        "nobody there": asked(HELLO, port=NOBODY),
        "another address of the name": asked(named("web.test"), GONE),
        "port": refusal(ONE4, UNGRANTED),
        "address": refusal("198.51.100.9", ECHO),
    }


def refusal(address: str, port: int) -> str:
    try:
        connect(address, port).close()
    except OSError as error:
        return type(error).__name__
    return "connected"


def noise() -> dict[str, Any]:
    """Two hundred hellos with some bytes changed, cut off or left out, each with its end; what
    became of them, and of a good one after all."""
    source = random.Random(11)
    outcomes: dict[str, int] = {}
    for _ in range(200):
        data = bytearray(HELLO)
        for _ in range(source.randint(1, 4)):
            at = source.randrange(len(data))
            data[at : at + source.randint(0, 3)] = source.randbytes(source.randint(0, 3))
        outcome = "reset"
        with contextlib.suppress(OSError), connect() as client:
            client.sendall(data)
            client.shutdown(socket.SHUT_WR)
            if client.recv(1):
                known = b"api.test" in bytes(data).lower()
                outcome = "let through by its name" if known else "let through"
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
    return {"outcomes": outcomes, "after": asked(HELLO)}


def byte_by_byte() -> str:
    with connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(len(HELLO)):
            client.sendall(HELLO[at : at + 1])
            time.sleep(0.0005)
        return "echo" if all_of(client, len(HELLO)) == HELLO else "else"


def half_close() -> bool:
    """The server hears our end and still answers; all bytes came."""
    data = HELLO + os.urandom(3 << 20)
    with connect(port=SUM) as client:
        client.sendall(data)
        client.shutdown(socket.SHUT_WR)
        return all_of(client, 64).decode() == hashlib.sha256(data).hexdigest()


def other_half_close() -> list[Any]:
    """The server ends first, after 8 MiB; we hear its end and can still talk to it."""
    with connect(port=GIVE) as client:
        client.sendall(HELLO)
        got = bytearray()
        while part := client.recv(1 << 20):
            got += part
        client.sendall(b"more")
        return [len(got), got == bytes(range(256)) * (GIVEN // 256)]


def server_resets() -> str:
    """A reset there is a reset here, not an end."""
    return asked(HELLO, port=RESET)


def client_resets(told: Told) -> int:
    """A reset here ends the other side too."""
    client = connect()
    client.sendall(HELLO)
    all_of(client, len(HELLO))
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
    return settled(told)["count"]


def backpressure(told: Told) -> dict[str, Any]:
    """A server that reads nothing stops the client; the relay holds no more than a pipe."""
    with connect(port=DEAF) as client:
        client.sendall(HELLO)
        client.settimeout(0.2)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 64 << 20:
                sent += client.send(bytes(1 << 16))
        served = asked(HELLO)  # who is slow holds up nobody else
        used_s = cpu_s()
        time.sleep(0.3)
        idle_s = cpu_s() - used_s
    return {"sent": sent, "served": served, "idle": idle_s < 0.15, **settled(told)}


def cpu_s() -> float:
    with open(f"/proc/{RELAY}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def many(told: Told) -> dict[str, Any]:
    """500 connections at once, each with its own bytes."""
    clients = [connect(WORLD[at % 3]) for at in range(500)]
    for client in clients:
        client.sendall(HELLO)
    said = [all_of(client, len(HELLO)) for client in clients]
    for at, client in enumerate(clients):
        client.sendall(b"%06d" % at * 1000)
    back = [all_of(client, 6000) for client in clients]
    good = sum(part == b"%06d" % at * 1000 for at, part in enumerate(back))
    for client in clients:
        client.close()
    return {"hellos": sum(each == HELLO for each in said), "good": good, **settled(told)}


def slow_lorises(told: Told) -> dict[str, Any]:
    """1,100 that never say their hello: the oldest give way, the rest are ended in time, and
    one that does say it is served meanwhile."""
    clients = [connect() for _ in range(1100)]
    for client in clients:
        with contextlib.suppress(OSError):  # it has given way
            client.sendall(HELLO[:9])
    served = asked(HELLO)
    started_s = time.monotonic()
    outcomes: dict[str, int] = {}
    for client in clients:
        try:
            outcome = "end" if client.recv(1) == b"" else "data"
        except OSError as error:
            outcome = type(error).__name__
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        client.close()
    in_time = time.monotonic() - started_s < 8
    return {"served": served, "outcomes": outcomes, "in time": in_time, **settled(told)}


def settled(told: Told) -> dict[str, int]:
    """What the relay holds when nobody is left."""
    for _ in range(100):
        time.sleep(0.05)
        for each in told:
            if isinstance(each, dict):
                STATE.update(each)
            else:
                REFUSED.append(each)
        if STATE["count"] == 0:
            break
    return dict(STATE)


class Told:
    """The lines of the relay that can be read now."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._part = b""

    def __iter__(self) -> Iterator[Any]:
        while select.select([self._fd], [], [], 0)[0]:
            *lines, self._part = (self._part + os.read(self._fd, 1 << 20)).split(b"\n")
            yield from map(json.loads, lines)


def through_proxy() -> dict[str, str]:
    """What the proxy says first comes first; hello or not, as nothing is checked."""
    found = {}
    for address, port in (("127.128.0.1", 443), ("127.128.0.2", 22)):
        with connect(address, port) as client:
            client.sendall(b"hi" * 1000)
            said = b"from %s:%d" % (MADE_UP[address].encode(), port) + b"hi" * 1000
            found[MADE_UP[address]] = "good" if all_of(client, len(said)) == said else "bad"
    found["forbidden by it"] = asked(HELLO, "127.128.0.3")
    found["no proxy's answer"] = asked(HELLO, "127.128.0.4")
    found["no name's address"] = asked(HELLO, ONE4)
    found["the proxy itself"] = refusal(TWO4, PROXY)
    return found


def without_password() -> str:
    return asked(HELLO, "127.128.0.1")


def proxy_down() -> list[Any]:
    started_s = time.monotonic()
    return [asked(HELLO, "127.128.0.1"), time.monotonic() - started_s < 2]


STATE: dict[str, int] = {"count": 0, "descriptors": 0}
REFUSED: list[Any] = []
RELAY = 0

Scenes = tuple[Callable[..., Any], ...]
#: The proxy of a relay, and what is played with it.
PLAYS: tuple[tuple[str, Scenes], ...] = (
    ("", (peers, names, noise, byte_by_byte, half_close, other_half_close, server_resets,
          client_resets, backpressure, many, slow_lorises)),
    (f"http://user:pass@{TWO4}:{PROXY}", (through_proxy,)),
    (f"http://user:wrong@{TWO4}:{PROXY}", (without_password,)),
    (f"http://user:pass@{TWO4}:3129", (proxy_down,)),
)  # fmt: skip


def play(scenes: Scenes, told: Told) -> dict[str, Any]:
    answer = {}
    for scene in scenes:
        REFUSED.clear()
        answer[scene.__name__] = scene(*[told] * scene.__code__.co_argcount)
        settled(told)
        answer[f"refused by {scene.__name__}"] = list(REFUSED)
    return answer
