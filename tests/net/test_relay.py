"""The relay of a box in real namespaces, behind the box's own table (relayed.py).

What is refused is refused by what the client sends alone: the same connections with a granted
name arrive.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.net


@pytest.fixture(scope="module")
def played() -> dict[str, Any]:
    """What came of every scene."""
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("relayed.py"))],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def test_a_program_sees_the_address_it_asked_for(played: dict[str, Any]) -> None:
    """Over both families."""
    assert played["peers"] == [["198.51.100.7", 443], ["2001:db8::7", 443]]


def test_the_server_name_decides(played: dict[str, Any]) -> None:
    """Granted names pass, at every granted address, however spelled and cut up; others, none,
    other protocols and malformed hellos are reset; ports and addresses stay the table's. Where
    nobody answers, another address of the name is tried."""
    reset, refused = "ConnectionResetError", "ConnectionRefusedError"
    assert played["names"] == {
        "granted": "echo", "granted6": "echo", "granted, other address": "echo",
        "capitals, a dot": "echo", "in small records": "echo",
        "other": reset, "other6": reset, "below": reset, "none": reset, "plain": reset,
        "wrong": reset, "the relay itself": reset, "nobody there": reset,
        "another address of the name": "echo",
        "port": refused, "address": refused,
    }  # fmt: skip
    assert played["byte_by_byte"] == "echo"


def test_each_refusal_is_told(played: dict[str, Any]) -> None:
    """With its reason, where it was to go and the name that was asked for; nothing else is."""
    assert played["refused by names"] == [
        ["tls-name", "198.51.100.7", 443, "evil.test"],
        ["tls-name", "2001:db8::7", 443, "evil.test"],
        ["tls-name", "198.51.100.7", 443, "x.api.test"],
        ["tls-none", "198.51.100.7", 443, ""],
        ["not-tls", "198.51.100.7", 443, ""],
        ["tls-malformed", "198.51.100.7", 443, ""],
        ["unreachable", "198.51.100.7", 450, "api.test"],
    ]
    quiet = ("peers", "byte_by_byte", "half_close", "other_half_close", "many", "backpressure")
    assert [played[f"refused by {name}"] for name in quiet] == [[]] * len(quiet)


def test_noise_opens_nothing_and_breaks_nothing(played: dict[str, Any]) -> None:
    """Of hellos with changed bytes only some whose name is still there get through."""
    seen = played["noise"]
    assert seen["outcomes"]["reset"] > 100
    assert set(seen["outcomes"]) <= {"reset", "let through by its name"}
    assert seen["after"] == "echo"


def test_ends_and_resets_are_passed_on(played: dict[str, Any]) -> None:
    """A half-closed side still gets its answer, whole; a reset is a reset on the other side."""
    assert played["half_close"] is True
    assert played["other_half_close"] == [8 << 20, True]
    assert played["server_resets"] == "ConnectionResetError"
    assert played["client_resets"] == 0


def test_who_does_not_read_stops_only_whom_it_talks_to(played: dict[str, Any]) -> None:
    """The sender waits, others are served, and the relay does not spin meanwhile."""
    seen = played["backpressure"]
    assert seen["sent"] < 64 << 20
    assert (seen["served"], seen["idle"], seen["count"]) == ("echo", True, 0)


def test_five_hundred_at_once(played: dict[str, Any]) -> None:
    """Each gets its own bytes back, and nothing is left of them."""
    seen = played["many"]
    assert (seen["hellos"], seen["good"], seen["count"]) == (500, 500, 0)
    assert seen["descriptors"] < 64 + 32


def test_those_that_say_nothing_are_bounded(played: dict[str, Any]) -> None:
    """In number and in time, and keep nobody out."""
    seen = played["slow_lorises"]
    assert (seen["served"], seen["in time"], seen["count"]) == ("echo", True, 0)
    assert sum(seen["outcomes"].values()) == 1100
    assert set(seen["outcomes"]) <= {"end", "ConnectionResetError"}
    assert {kind for kind, *_ in played["refused by slow_lorises"]} == {"slow"}
    assert len(played["refused by slow_lorises"]) == 1100


def test_names_go_through_a_proxy(played: dict[str, Any]) -> None:
    """By the name that an address was made up for, whatever is spoken; what the proxy refuses
    is told with its status; the proxy itself is out of the box's reach."""
    reset = "ConnectionResetError"
    assert played["through_proxy"] == {
        "api.test": "good", "plain.test": "good", "forbidden by it": reset,
        "no proxy's answer": reset, "no name's address": reset,
        "the proxy itself": "ConnectionRefusedError",
    }  # fmt: skip
    assert played["refused by through_proxy"] == [
        ["proxy-403", "127.128.0.3", 443, "unknown.test"],
        ["unreachable", "127.128.0.4", 443, "garbage.test"],
        ["ungranted", "198.51.100.7", 443, ""],
    ]


def test_a_proxy_that_fails_is_told_at_once(played: dict[str, Any]) -> None:
    """A wrong password, and nobody there."""
    assert played["without_password"] == "ConnectionResetError"
    assert played["refused by without_password"] == [["proxy-407", "127.128.0.1", 443, "api.test"]]
    assert played["proxy_down"] == ["ConnectionResetError", True]
    assert played["refused by proxy_down"] == [["unreachable", "127.128.0.1", 443, "api.test"]]
