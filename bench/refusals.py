"""How soon a program in a box sees that it is refused, whatever it tries."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.boxes import axonkernel
from bench.measure import Absent
from bench.session import Session
from bench.table import Row

__all__ = ["slowest"]

_PROGRAM = """
import json, socket, sys, time
ADDRESS4, ADDRESS6, NAME, ROUNDS = json.loads(sys.argv[-1])
def stream(address):
    with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as caller:
        caller.settimeout(5)
        caller.connect((address, 9))
def datagram(address):
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as caller:
        caller.sendto(b"x", (address, 9))
def name(host):
    socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
kinds = {"tcp4": (stream, ADDRESS4), "tcp6": (stream, ADDRESS6), "udp4": (datagram, ADDRESS4),
         "udp6": (datagram, ADDRESS6), "name": (name, NAME)}
found = {kind: [] for kind in kinds}
for _ in range(ROUNDS):
    for kind, (action, target) in kinds.items():
        start = time.perf_counter()
        try:
            action(target)
            said = "let through"
        except OSError as error:
            said = type(error).__name__
        found[kind].append([time.perf_counter() - start, said])
print(json.dumps(found))
"""


def slowest(session: Session) -> Iterator[Row]:
    """TCP and UDP over both families, and a name, of which the first starts the resolver."""
    sys.path.append(str(Path(__file__).parent.parent / "tests"))
    from lab.internet import ADDRESSES, Internet  # the tests' own, not a package
    from lab.processes import LabUnavailable

    rounds = session.rounds(41)
    order = [ADDRESSES["two4"], ADDRESSES["two6"], "refused.test", rounds]
    grants = ["--net", f"{ADDRESSES['one4']}:443", "--net", f"[{ADDRESSES['one6']}]:443"]
    client = [os.path.realpath(sys.executable), "-ISc", _PROGRAM, json.dumps(order)]
    words = [*axonkernel(), "exec", "--quiet", *grants, "--", *client]
    try:
        with Internet(tap=False) as net:
            enter = ["nsenter", f"--target={net.client}", "--net", "--mount"]
            pipe = subprocess.PIPE
            done = subprocess.run([*enter, *words], stdout=pipe, check=True, timeout=60)
    except LabUnavailable as error:
        raise Absent(str(error)) from error
    found: dict[str, list[tuple[float, str]]] = json.loads(done.stdout)
    times = {kind: [took_s for took_s, _ in tries] for kind, tries in found.items()}
    medians = {kind: statistics.median(each) for kind, each in times.items()}
    errors = {kind: "/".join(sorted({said for _, said in tries})) for kind, tries in found.items()}
    told = [f"{kind} {took_s * 1e3:.2f} ms ({errors[kind]})" for kind, took_s in medians.items()]
    first, longest = times["name"][0], max(max(each) for each in times.values())
    told += [f"the first name {first * 1e3:.0f} ms", f"the longest {longest * 1e3:.0f} ms"]
    yield Row(
        "how soon a refusal is seen, by the slowest kind",
        max(medians.values()) * 1e3,
        unit="ms",
        budget=50.0,
        n=rounds,
        note=", ".join(told),
        medians=medians,
    )
