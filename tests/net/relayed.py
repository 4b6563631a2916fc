"""Run by test_relay.py in a process of its own: a box's table and relay beside an open world.

Makes a user and a network namespace with the table and the relay (the box), a second network
namespace with servers (the world) and a veth link between them, then plays every scene below
and prints what came of each as JSON. Nothing outside these namespaces is touched.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from net.two_namespaces import become_root_of_own_namespaces, ip, linked_to
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


# -- the world --------------------------------------------------------------------------------


def world(ready: int, go: int) -> None:
    import ctypes

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


# -- the relay --------------------------------------------------------------------------------


class Dialer:
    """Stands in for dialer.py, which is outside of the box."""

    def __init__(self, host: str, port: int) -> None:
        self._place = host, port
        self._asked = os.eventfd(0, os.EFD_SEMAPHORE | os.EFD_NONBLOCK)

    def fileno(self) -> int:
        return self._asked

    def ask(self) -> None:
        os.eventfd_write(self._asked, 1)

    def take(self) -> socket.socket | None:
        from axonkernel.box.resolver import original

        os.eventfd_read(self._asked)
        return original.begin(*self._place)

    def close(self) -> None:
        os.close(self._asked)


def relay(told: int, ready: int, proxied: str) -> None:
    """The relay as a process, with a short patience; tells what it refuses, and its state."""
    from axonkernel.box.resolver import relay as module
    from axonkernel.box.resolver.connection import Rules, Through
    from axonkernel.box.resolver.doors import open_doors
    from axonkernel.box.resolver.proxy import parse_proxy

    def tell(*refused: Any) -> None:
        os.write(told, (json.dumps(refused) + "\n").encode())

    module.HELLO_S, module.ATTEMPT_S = 0.7, 0.3
    rules = Rules(
        True,
        lambda name, port: name in ("api.test", "web.test") and port != UNGRANTED,
        addresses=lambda name: (GONE, ONE4) if name == "web.test" else (),
    )
    if proxied:
        proxy = parse_proxy(proxied)
        through = Through(
            lambda ip: MADE_UP.get(ip, ""), proxy.credentials, Dialer(proxy.host, proxy.port)
        )
        rules = Rules(False, rules.granted, through)
    doors = [socket.socket(fileno=door.detach()) for door in open_doors(relayed=True).relay]
    made = module.Relay(rules, tell, doors)
    state = (0, 0)
    os.write(ready, b"3")
    while True:
        wait_s = made.wait_s
        select.select([made], [], [], 0.1 if wait_s is None else min(wait_s, 0.1))
        made.serve()
        made.expire()
        now = made.count, len(os.listdir("/proc/self/fd"))
        if now != state:
            state = now
            os.write(told, (json.dumps({"count": now[0], "descriptors": now[1]}) + "\n").encode())


class Told:
    """The lines of the relay that can be read now."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._part = b""

    def __iter__(self) -> Iterator[Any]:
        while select.select([self._fd], [], [], 0)[0]:
            *lines, self._part = (self._part + os.read(self._fd, 1 << 20)).split(b"\n")
            yield from map(json.loads, lines)


# -- the scenes -------------------------------------------------------------------------------


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


STATE: dict[str, int] = {"count": 0, "descriptors": 0}
REFUSED: list[Any] = []
RELAY = 0


def main() -> None:
    from axonkernel.box import nft, redirected
    from axonkernel.box.model import NetPlan

    become_root_of_own_namespaces()
    ready, go = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        world(ready[1], go[0])
    try:
        os.read(ready[0], 1)
        linked_to(pid)
        os.write(go[1], b"1")
        os.read(ready[0], 1)
        wait_for_ipv6()
        nft.load(nft.ruleset(NetPlan(link="veth", relayed=True)))
        granted = [(address, "tcp", port) for address in WORLD for port in PORTS]
        granted.append((GONE, "tcp", ECHO))
        granted += [(address, "tcp", port) for address in MADE_UP for port in (443, 22)]
        nft.add_elements(granted, 300, redirected.SET)
        answer: dict[str, Any] = {}
        for url, scenes in PLAYS:
            with relaying(url) as told:
                answer |= play(scenes, told)
        print(json.dumps(answer))
    finally:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def wait_for_ipv6() -> None:
    """The kernel takes up to a second to notice that the link is up."""
    for _ in range(100):
        with contextlib.suppress(OSError):
            return socket.create_connection((ONE6, ECHO), 1).close()
        time.sleep(0.02)


@contextlib.contextmanager
def relaying(url: str) -> Iterator[Told]:
    """A relay, for as long as the block."""
    global RELAY
    ready, told = os.pipe(), os.pipe()
    RELAY = os.fork()
    if RELAY == 0:
        relay(told[1], ready[1], url)
    try:
        os.read(ready[0], 1)
        yield Told(told[0])
    finally:
        os.kill(RELAY, signal.SIGKILL)
        os.waitpid(RELAY, 0)


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


Scenes = tuple[Callable[..., Any], ...]
#: The proxy of a relay, and what is played with it.
PLAYS: tuple[tuple[str, Scenes], ...] = (
    ("", (peers, names, byte_by_byte, half_close, other_half_close, server_resets, client_resets,
          backpressure, many, slow_lorises)),
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


if __name__ == "__main__":
    main()
