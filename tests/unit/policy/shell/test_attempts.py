"""Attempts are refused, and honest work of the same day is not."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from axonkernel.policy.decide import BoxGrants, Ruleset, compile
from axonkernel.policy.explain import explain
from axonkernel.policy.parse import parse
from axonkernel.policy.request import Request

#: The box of an agent: its private folders, and the floor.
BOX = BoxGrants(write=("/tmp", "/home/u"), read=("/usr", "/etc/ssl"))
TABLES = tomllib.loads((Path(__file__).parent / "attempts.toml").read_text())
RULES = {name: compile(parse(table["policy"]), boxed=BOX) for name, table in TABLES.items()}


def _lines(kind: str) -> list[tuple[str, str]]:
    return [(name, line) for name, table in TABLES.items() for line in table[kind]]


@pytest.mark.parametrize(("name", "line"), _lines("refused"))
def test_an_attempt_is_refused(name: str, line: str) -> None:
    """It is never allowed, and never by a fault of ours."""
    decision = RULES[name].decide(Request.shell(line, cwd="/srv/ws"))
    assert decision.verdict != "allow" and decision.code != "internal", decision


@pytest.mark.parametrize(("name", "line"), _lines("allowed"))
def test_honest_work_is_allowed(name: str, line: str) -> None:
    """The positive twins, under the very same policies; ``explain`` agrees."""
    ruleset: Ruleset = RULES[name]
    request = Request.shell(line, cwd="/srv/ws")
    decision = ruleset.decide(request)
    assert decision.verdict == "allow", decision
    assert explain(ruleset, request).decision == decision


def test_there_are_many() -> None:
    """A table that lost its rows would pass."""
    assert len(_lines("refused")) > 220 and len(_lines("allowed")) > 220
