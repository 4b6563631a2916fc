"""How soon a program in a box sees that it is refused: a program to run there, and its figures."""

from __future__ import annotations

import json
from collections.abc import Sequence

__all__ = ["figures", "words"]

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


def words(
    python: str, address4: str, address6: str, name: str, *, rounds: int = 20
) -> Sequence[str]:
    """A command for a box that grants none of these, and has a link.

    Arguments:
        rounds: attempts of each kind.
    """
    return [python, "-ISc", _PROGRAM, json.dumps([address4, address6, name, rounds])]


def figures(output: str | bytes) -> dict[str, tuple[float, str]]:
    """By ``tcp4``, ``tcp6``, ``udp4``, ``udp6`` and ``name``: the longest that one attempt took
    (seconds), and the kinds of errors that the program saw."""
    found = json.loads(output)
    return {
        kind: (max(took_s for took_s, _ in tries), ", ".join(sorted({said for _, said in tries})))
        for kind, tries in found.items()
    }
