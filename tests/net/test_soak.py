"""Many connections from one box while the addresses of a granted name change every second.

Each verdict is counted by the client; what the resolver holds is looked at from outside.
"""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from box.boxed import PYTHON, Boxed, command_line
from lab.internet import ADDRESSES, Internet
from net.resolvers import resolver_of
from unit.box.hellos import hello, records, server_name

pytestmark = [
    pytest.mark.requires("box", "net", "root"),
    pytest.mark.usefixtures("leftovers"),
]

SOAKING = Path(__file__).with_name("soaking.py").read_text()
ROTATION = [ADDRESSES[name] for name in ("one4", "two4", "three4")]
UNGRANTED = ADDRESSES["four4"]
#: More than any cache of it takes once it is warm (KiB).
GROWTH_KIB = 2048


class Held(NamedTuple):
    """What a resolver has: memory in KiB, descriptors, elements of its sets."""

    memory: int
    descriptors: int
    elements: int


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[tuple[Internet, Boxed]]:
    """A private internet that notes no packets: there are too many."""
    with Internet(tap=False) as net:
        boxed = Boxed(tmp_path, tmp_path)
        boxed.prefix = (
            "nsenter", f"--target={net.client}", "--net", "--mount", f"--wdns={boxed.project}",
        )  # fmt: skip
        yield net, boxed


def soak(net: Internet, boxed: Boxed, connections: int, check: str) -> tuple[Any, Held, Held]:
    """What the client counted, and what the resolver held when warm and at the end."""
    policy = boxed.root / "p.toml"
    policy.write_text(f'[net]\nallow = ["soak.test"]\ntls_names = "{check}"\n')
    first = records(hello([server_name(b"soak.test")])).hex()
    command = [PYTHON, "-ISc", SOAKING, str(connections), first, UNGRANTED]
    words = command_line("--policy", str(policy), "--quiet", command=command)
    net.name("soak.test", ROTATION[0], ttl_s=1)
    over = threading.Event()
    turning = threading.Thread(target=rotate, args=(net, over))
    turning.start()
    process = subprocess.Popen(
        [*boxed.prefix, *words], env=boxed.env, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    with process:
        assert process.stdout and process.stderr
        try:
            line = process.stdout.readline()
            assert line == b"warm\n", process.stderr.read()
            resolver = resolver_of(process.pid)
            warm = last = held(resolver)
            assert warm is not None and last is not None
            while process.poll() is None:
                last = held(resolver) or last
                time.sleep(0.2)
            return json.loads(process.stdout.read()), warm, last
        finally:
            process.kill()
            over.set()
            turning.join()


def rotate(net: Internet, over: threading.Event) -> None:
    """Another address every second, and now and then two at a time."""
    turn = 0
    while not over.wait(1.0):
        turn += 1
        one, two = ROTATION[turn % 3], ROTATION[(turn + 1) % 3]
        net.name("soak.test", *((one, two) if turn % 4 == 0 else (one,)), ttl_s=1)


def held(resolver: int) -> Held | None:
    """None when it has ended meanwhile."""
    try:
        status = Path(f"/proc/{resolver}/status").read_text()
        memory = next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line)
        descriptors = len(os.listdir(f"/proc/{resolver}/fd"))
        listed = subprocess.run(
            ["nsenter", f"--net=/proc/{resolver}/ns/net", "nft", "-j", "list", "sets"],
            capture_output=True, check=True, timeout=10,
        )  # fmt: skip
    except (OSError, StopIteration, subprocess.CalledProcessError):
        return None
    sets = [each["set"] for each in json.loads(listed.stdout)["nftables"] if "set" in each]
    names = ("allow4", "allow6", "named4", "named6")
    return Held(
        memory, descriptors, sum(len(s.get("elem", ())) for s in sets if s["name"] in names)
    )


def test_a_second_of_it(quiet: tuple[Internet, Boxed]) -> None:
    """Two hundred connections, by address and by TLS server name: no wrong verdict."""
    counted, warm, last = soak(*quiet, 200, "check")
    assert counted["wrong"] == {}
    assert 0 < last.elements <= len(ROTATION) and last.descriptors <= warm.descriptors + 8


@pytest.mark.deep
@pytest.mark.timeout(300)
@pytest.mark.parametrize("check", ["off", "check"])
def test_twelve_thousand_connections(quiet: tuple[Internet, Boxed], check: str) -> None:
    """Twice, so 24,000: none is judged wrong while addresses change every second, and the
    resolver holds no more at the end than when it was warm."""
    counted, warm, last = soak(*quiet, 12_000, check)
    assert counted["wrong"] == {}
    assert set(counted["addresses"]) == set(ROTATION)
    assert min(counted["addresses"].values()) > 500
    assert 0 < last.elements <= len(ROTATION)
    assert last.descriptors <= warm.descriptors + 8
    assert last.memory <= warm.memory + GROWTH_KIB
