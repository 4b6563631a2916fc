"""Run by test_relay.py in a process of its own: a box's table and relay beside an open world.

Makes a user and a network namespace with the table and the relay (the box), a second network
namespace with servers (the world) and a veth link between them, then plays every scene and
prints what came of each as JSON. Nothing outside these namespaces is touched.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from net import relayed_scenes
from net.relayed_scenes import PLAYS, Told, play
from net.relayed_world import ECHO, GONE, MADE_UP, ONE4, ONE6, PORTS, UNGRANTED, WORLD, world
from net.two_namespaces import become_root_of_own_namespaces, linked_to


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
    ready, told = os.pipe(), os.pipe()
    pid = relayed_scenes.RELAY = os.fork()
    if pid == 0:
        relay(told[1], ready[1], url)
    try:
        os.read(ready[0], 1)
        yield Told(told[0])
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
