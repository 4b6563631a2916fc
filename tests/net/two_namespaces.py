"""Run by test_table_real.py in a process of its own: a walled namespace beside an open one.

Makes a user and a network namespace (the box), a second network namespace with listeners (the
world) and a veth link between them. For each case on standard input it loads the table in the
box and tries every destination. Nothing outside these namespaces is touched. Prints JSON.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import socket
import subprocess
import sys
import time
from typing import Any

from axonkernel.box import nft
from axonkernel.box.model import NetPlan

CLONE_NEWUSER, CLONE_NEWNET = 0x10000000, 0x40000000
WORLD4 = [f"198.51.100.{n}" for n in (7, 8, 9)]
WORLD6 = ["2001:db8::7", "2001:db8::8"]


def unshare(kind: int) -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(kind) != 0:
        raise OSError(ctypes.get_errno(), "unshare")


def become_root_of_own_namespaces() -> None:
    uid, gid = os.getuid(), os.getgid()
    unshare(CLONE_NEWUSER | CLONE_NEWNET)
    for name, text in (("setgroups", "deny"), ("uid_map", f"0 {uid} 1"), ("gid_map", f"0 {gid} 1")):
        with open(f"/proc/self/{name}", "w") as file:
            file.write(text)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def family(address: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def world(go: int, ready: int, seen: int) -> None:
    """Listen everywhere; write each (address, protocol, port) that was reached to ``seen``."""
    unshare(CLONE_NEWNET)
    os.write(ready, b"1")
    os.read(go, 1)
    ip("link", "set", "lo", "up")
    for address in (*WORLD4, *WORLD6):
        ip("addr", "add", f"{address}/{64 if ':' in address else 24}", "dev", "w0", "nodad")
    ip("link", "set", "w0", "up")
    listeners = {}
    for address in (*WORLD4, *WORLD6):
        for kind, port in (
            (socket.SOCK_STREAM, 80),
            (socket.SOCK_STREAM, 85),
            (socket.SOCK_DGRAM, 53),
        ):
            listener = socket.socket(family(address), kind)
            listener.bind((address, port))
            if kind == socket.SOCK_STREAM:
                listener.listen()
            listeners[listener] = (address, "tcp" if kind == socket.SOCK_STREAM else "udp", port)
    os.write(ready, b"2")
    while True:
        for listener in select.select(list(listeners), [], [])[0]:
            if listeners[listener][1] == "tcp":
                listener.accept()[0].close()
            else:
                listener.recv(100)
            os.write(seen, (json.dumps(listeners[listener]) + "\n").encode())


def attempt(address: str, protocol: str, port: int) -> dict[str, Any]:
    kind = socket.SOCK_STREAM if protocol == "tcp" else socket.SOCK_DGRAM
    started_s = time.monotonic()
    with socket.socket(family(address), kind) as client:
        client.settimeout(0.25)
        try:
            client.connect((address, port))
            client.send(b"x")
        except OSError as error:
            name = type(error).__name__
        else:
            name = "ok"
    return {"outcome": name, "took_s": time.monotonic() - started_s}


def loopback() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(attempt("127.0.0.1", "tcp", server.getsockname()[1])["outcome"])


def linked_to(pid: int) -> None:
    ip("link", "set", "lo", "up")
    ip("link", "add", "b0", "type", "veth", "peer", "name", "w0", "netns", str(pid))
    ip("addr", "add", "198.51.100.1/24", "dev", "b0")
    ip("addr", "add", "2001:db8::1/64", "dev", "b0", "nodad")
    ip("link", "set", "b0", "up")


def main() -> None:
    order = json.load(sys.stdin)
    if order["transport"] == "program":
        nft._binding = lambda: None
    become_root_of_own_namespaces()
    go, ready, seen = os.pipe(), os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        world(go[0], ready[1], seen[1])
    try:
        os.read(ready[0], 1)
        linked_to(pid)
        os.write(go[1], b"1")
        os.read(ready[0], 1)
        wait_for_link(seen[0])
        print(json.dumps([walled(case, order["try"], seen[0]) for case in order["cases"]]))
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def wait_for_link(seen: int) -> None:
    """Until IPv6 works: the kernel takes up to a second to notice that the link is up."""
    deadline_s = time.monotonic() + 10
    while attempt(WORLD6[0], "tcp", 80)["outcome"] != "ok":
        if time.monotonic() > deadline_s:
            raise TimeoutError("the link did not come up")
        time.sleep(0.02)
    while select.select([seen], [], [], 0.1)[0]:
        os.read(seen, 65536)


def walled(case: dict[str, Any], tries: list[Any], seen: int) -> dict[str, Any]:
    if case["plan"] is not None:
        allow, deny, *rest = case["plan"]
        triples = (tuple(map(tuple, allow)), tuple(map(tuple, deny)))
        nft.load(nft.ruleset(NetPlan(*triples, *rest)))
        nft.add_elements([tuple(item) for item in case["granted"]], 30)
    outcomes = {json.dumps(item): attempt(*item) for item in tries}
    reached: list[Any] = []
    while select.select([seen], [], [], 0.1)[0]:
        reached += map(json.loads, os.read(seen, 65536).decode().splitlines())
    answer = {"tries": outcomes, "reached": reached, "loopback": loopback()}
    if case["plan"] is not None:
        answer |= {"refused": nft.read_refused(), "again": nft.read_refused()}
        subprocess.run(["nft", "delete", "table", "inet", nft.TABLE], check=True)
    return answer


if __name__ == "__main__":
    main()
