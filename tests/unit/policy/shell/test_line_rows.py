"""Every line of the table of lines gets its verdict, and its twin is allowed."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import NamedTuple

import pytest

from axonkernel.kernel import Kernel
from axonkernel.policy.decide import Ruleset, compile
from axonkernel.policy.explain import explain
from axonkernel.policy.parse import parse
from axonkernel.policy.request import AnyRequest, Request
from unit.memory import MemoryAudit
from unit.policy.profiles.respell import around
from unit.policy.profiles.table import ROWS as WORDS
from unit.policy.profiles.table import rulesets as rulesets_of_words

CWD = "/srv/ws"


class Row(NamedTuple):
    """One line of the table; ``twin`` is "" where the row itself is allowed."""

    policy: str
    line: str
    said: str
    twin: str = ""


def _read() -> tuple[list[Row], dict[str, Ruleset]]:
    tables = tomllib.loads((Path(__file__).parent / "lines.toml").read_text())
    rows = [Row(name, *row) for name, table in tables.items() for row in table["rows"]]
    return rows, {name: compile(parse(table["policy"])) for name, table in tables.items()}


ROWS, rulesets = _read()
REFUSED = [row for row in ROWS if not row.said.startswith("allow")]


def said(policy: str, line: str) -> str:
    decision = rulesets[policy].decide(Request.shell(line, cwd=CWD))
    return f"{decision.verdict} {decision.code}"


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.policy}: {row.line[:60]!r}")
def test_each_line_is_decided_as_written(row: Row) -> None:
    """The verdict and its code; what is refused is that part, not the line around it."""
    assert said(row.policy, row.line) == row.said
    if row.twin:
        assert said(row.policy, row.twin).startswith("allow"), row.twin


def test_every_line_that_is_not_allowed_has_a_twin() -> None:
    """A table of denials alone would pass with a judge that denies everything."""
    assert all(bool(row.twin) == (row in REFUSED) for row in ROWS)
    assert len(ROWS) > 100


def test_a_refused_line_is_refused_inside_every_construct() -> None:
    """And its twin is not refused for standing behind another command."""
    for row in REFUSED:
        # "true | cd /etc && sort x" sorts where it was: such a line is kept together.
        line = f"( {row.line} )" if row.line.startswith("cd ") else row.line
        for text in around(line):
            assert not said(row.policy, text).startswith("allow"), text
        assert said(row.policy, f"true; {row.twin}").startswith("allow"), row.twin


def test_explain_and_a_kernel_give_the_same_answers() -> None:
    """The operator is told what was decided, and a kernel on this machine decides the same."""
    words = [(row.policy, argv) for row in WORDS for argv in (row.argv, row.twin) if argv]
    asked: list[tuple[Ruleset, str, AnyRequest]] = [
        (rulesets_of_words[name], name, Request.process(argv, cwd=CWD)) for name, argv in words
    ]
    lines = [(row.policy, text) for row in ROWS for text in (row.line, row.twin) if text]
    asked += [(rulesets[name], name, Request.shell(text, cwd=CWD)) for name, text in lines]
    kernels: dict[str, Kernel] = {}
    for ruleset, name, request in asked:
        wanted = ruleset.decide(request)
        assert explain(ruleset, request).decision == wanted
        if name not in kernels:
            kernels[name] = Kernel(ruleset.policy, cwd="/", audit=MemoryAudit())
        for got in (kernels[name].check(request), kernels[name].explain(request).decision):
            assert (got.verdict, got.code) == (wanted.verdict, wanted.code), request
    for kernel in kernels.values():
        kernel.close()
