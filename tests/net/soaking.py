"""Given to the Python of a box: makes many connections by names, and counts wrong verdicts.

``soaking.py CONNECTIONS HELLO``: the hello goes first on each connection and comes back.
"""

from __future__ import annotations

import json
import socket
import sys
import time

PORT = 443
GRANTED = "soak.test"
COUNT, HELLO = int(sys.argv[1]), bytes.fromhex(sys.argv[2])


def reached(address: str) -> str:
    """What comes of a connection to an address."""
    with socket.socket() as client:
        client.settimeout(10)
        try:
            client.connect((address, PORT))
            client.sendall(HELLO)
            got = b""
            while len(got) < len(HELLO) and (part := client.recv(4096)):
                got += part
        except OSError as error:
            return type(error).__name__
        if got != HELLO or client.getpeername()[0] != address:
            return "another answer"
    return "reached"


def found(name: str) -> str:
    """The one address of a name; "" for none."""
    try:
        return socket.gethostbyname(name)
    except socket.gaierror:
        return ""


def main() -> None:
    wrong: dict[str, int] = {}
    addresses: dict[str, int] = {}
    started_s = time.monotonic()
    for number in range(COUNT):
        address = found(GRANTED)
        addresses[address] = addresses.get(address, 0) + 1
        verdicts = [(reached(address) if address else "no address", "reached")]
        if number % 8 == 0:  # none of these is granted
            verdicts += [
                (reached(sys.argv[3]), "ConnectionRefusedError"),
                (found(f"n{number}.ungranted.test"), ""),
            ]
        for seen, expected in verdicts:
            if seen != expected:
                wrong[seen] = wrong.get(seen, 0) + 1
        if number == COUNT // 5:
            print("warm", flush=True)
    took_s = time.monotonic() - started_s
    print(json.dumps({"wrong": wrong, "addresses": addresses, "took_s": took_s}), flush=True)


main()
