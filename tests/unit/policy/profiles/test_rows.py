"""Every line of the table of commands gets its verdict, and its twin is allowed."""

from __future__ import annotations

import pytest

from axonkernel.policy.explain import explain
from axonkernel.policy.request import Decision, Request
from unit.policy.profiles.table import ROWS, Row, rulesets


def decide(policy: str, argv: tuple[str, ...]) -> Decision:
    return rulesets[policy].decide(Request.process(argv, cwd="/srv/ws"))


def _name(row: Row) -> str:
    return f"{row.policy}: {' '.join(row.argv)[:60]}"


@pytest.mark.parametrize("row", ROWS, ids=_name)
def test_each_row_is_decided_as_written(row: Row) -> None:
    """The verdict and its code."""
    decision = decide(row.policy, row.argv)
    assert (decision.verdict, decision.code) == (row.verdict, row.code), decision


@pytest.mark.parametrize("row", [row for row in ROWS if row.twin], ids=_name)
def test_each_twin_is_allowed(row: Row) -> None:
    """What is refused is the hazard, not the program."""
    decision = decide(row.policy, row.twin)
    assert decision.verdict == "allow", decision


def test_explain_gives_the_same_answers() -> None:
    """The operator sees what was decided."""
    for row in ROWS:
        request = Request.process(row.argv, cwd="/srv/ws")
        assert explain(rulesets[row.policy], request).decision == decide(row.policy, row.argv)


def test_every_row_that_is_not_allowed_has_a_twin() -> None:
    """A table of denials alone would pass with a judge that denies everything."""
    lonely = [row.argv for row in ROWS if (row.verdict != "allow") != bool(row.twin)]
    assert not lonely
    assert len(ROWS) + sum(bool(row.twin) for row in ROWS) > 800
