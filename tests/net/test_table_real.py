"""The table in a real network namespace: what it refuses, and that it refuses nothing else.

Each case runs in a process of its own (two_namespaces.py), over both transports. The same
attempts without a table all arrive, so that a refusal is the table's doing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from axonkernel.box.model import NetPlan

pytestmark = pytest.mark.net

TRIES = [
    (address, protocol, port)
    for address in ("198.51.100.7", "198.51.100.8", "198.51.100.9", "2001:db8::7", "2001:db8::8")
    for protocol, port in (("tcp", 80), ("tcp", 85), ("udp", 53))
]


PLANS = {
    "nothing": (NetPlan(link="veth"), set()),
    "one port": (
        NetPlan(allow=(("198.51.100.7", "tcp", "80"),), link="veth"),
        {("198.51.100.7", "tcp", 80)},
    ),
    "cidr, range and a deny inside": (
        NetPlan(
            allow=(("198.51.100.0/24", "tcp", "80-90"), ("2001:db8::/64", "udp", "1-65535")),
            deny=(("198.51.100.8/31", "tcp", "0-81"),),
            link="veth",
        ),
        {
            ("198.51.100.7", "tcp", 80),
            ("198.51.100.7", "tcp", 85),
            ("198.51.100.8", "tcp", 85),
            ("198.51.100.9", "tcp", 85),
            ("2001:db8::7", "udp", 53),
            ("2001:db8::8", "udp", 53),
        },
    ),
    "nested networks with crossing ports": (
        NetPlan(
            allow=(("198.51.100.0/24", "tcp", "70-82"), ("198.51.100.9", "tcp", "80-85")),
            link="veth",
        ),
        {
            ("198.51.100.7", "tcp", 80),
            ("198.51.100.8", "tcp", 80),
            ("198.51.100.9", "tcp", 80),
            ("198.51.100.9", "tcp", 85),
        },
    ),
    "open with denies": (
        NetPlan(
            deny=(("198.51.100.8", "tcp", "0-65535"), ("2001:db8::7", "udp", "53")),
            open=True,
            link="veth",
        ),
        set(TRIES)
        - {
            ("198.51.100.8", "tcp", 80),
            ("198.51.100.8", "tcp", 85),
            ("2001:db8::7", "udp", 53),
        },
    ),
}


GRANTED = [("198.51.100.9", "tcp", 80), ("2001:db8::8", "udp", 53)]
CASES: dict[str, dict[str, Any]] = {
    "no table": {"plan": None},
    "granted later": {"plan": NetPlan(link="veth"), "granted": GRANTED},
    "drop": {"plan": NetPlan(link="veth", refuse="drop")},
    **{name: {"plan": plan} for name, (plan, _) in PLANS.items()},
}


@pytest.fixture(scope="module", params=["binding", "program"])
def answers(request: pytest.FixtureRequest) -> dict[str, dict[str, Any]]:
    """What came of each case, over one transport."""
    cases = [{"granted": [], **case} for case in CASES.values()]
    order = {"transport": request.param, "try": TRIES, "cases": cases}
    here = Path(__file__)
    done = subprocess.run(
        [sys.executable, here.with_name("two_namespaces.py")],
        input=json.dumps(order),
        capture_output=True,
        text=True,
        timeout=60,
        cwd=here.parents[2],
        env={"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(here.parents[2])},
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = dict(zip(CASES, json.loads(done.stdout), strict=True))
    for answer in found.values():
        answer["reached"] = {tuple(item) for item in answer["reached"]}
        noted = [tuple(item) for item in answer.get("refused", ())]
        answer["refused"] = [tuple(item) for *item, _ in noted]
        answer["packets"] = {item[-1] for item in noted}
    return found


def test_without_a_table_everything_arrives(answers: dict[str, dict[str, Any]]) -> None:
    """The positive twin of every refusal below."""
    answer = answers["no table"]
    assert answer["reached"] == set(TRIES)
    assert {item["outcome"] for item in answer["tries"].values()} == {"ok"}


@pytest.mark.parametrize("name", PLANS)
def test_exactly_what_the_plan_allows_arrives(
    answers: dict[str, dict[str, Any]], name: str
) -> None:
    """The listeners saw the allowed attempts and no other; the refused ones were told apart."""
    _, allowed = PLANS[name]
    answer = answers[name]
    assert answer["reached"] == allowed
    assert set(answer["refused"]) == set(TRIES) - allowed
    assert len(answer["refused"]) == len(set(answer["refused"]))
    # One packet for each datagram; a connection that is reset is not tried again.
    assert answer["packets"] <= {1} and answer["again"] == []
    assert answer["loopback"] == "ok"


def test_a_refusal_is_immediate_and_has_its_errno(answers: dict[str, dict[str, Any]]) -> None:
    """Over both families: tcp is reset, udp is EPERM, neither waits."""
    answer = answers["nothing"]
    for key, item in answer["tries"].items():
        expected = "PermissionError" if "udp" in key else "ConnectionRefusedError"
        assert item["outcome"] == expected, key
        # The kernel's own retransmission, which a wrong answer would wait for, takes 1 s.
        assert item["took_s"] < 0.25, key


def test_drop_answers_nothing(answers: dict[str, dict[str, Any]]) -> None:
    """``net.refuse: drop``: tcp times out, and the attempts are noted all the same."""
    answer = answers["drop"]
    tcp = {item["outcome"] for key, item in answer["tries"].items() if "tcp" in key}
    assert tcp == {"TimeoutError"}
    assert answer["reached"] == set()
    assert set(answer["refused"]) == set(TRIES)


def test_the_warden_can_grant_more_while_it_runs(answers: dict[str, dict[str, Any]]) -> None:
    """An added element opens its address, protocol and port, and nothing beside it."""
    assert answers["granted later"]["reached"] == set(GRANTED)
