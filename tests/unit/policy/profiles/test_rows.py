"""Every line of the table of commands gets its verdict, and its twin is allowed."""

from __future__ import annotations

from typing import Any

import pytest

from axonkernel.policy.decide import compile
from axonkernel.policy.explain import explain
from axonkernel.policy.parse import parse
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


def test_the_entry_that_decided_is_among_the_matches() -> None:
    """The operator is shown the winner with the rules that it beat."""
    for row in ROWS:
        for argv in filter(None, (row.argv, row.twin)):
            found = explain(rulesets[row.policy], Request.process(argv, cwd="/srv/ws"))
            rule = found.decision.rule
            assert not rule.endswith("]") or any(map(found.wins, found.matches)), (argv, found)


def test_every_row_that_is_not_allowed_has_a_twin() -> None:
    """A table of denials alone would pass with a judge that denies everything."""
    lonely = [row.argv for row in ROWS if (row.verdict != "allow") != bool(row.twin)]
    assert not lonely
    assert len(ROWS) + sum(bool(row.twin) for row in ROWS) > 800


LINES = compile(
    parse(
        {
            "shell": {"allow": True, "raw": True},
            "fs": {"read": ["/srv/ws"], "write": ["/srv/ws/out"]},
        }
    )
)


@pytest.mark.parametrize(
    ("line", "verdict", "code"),
    [
        ("git log | sort -o y", "deny", "fs.write"),
        ("git log | sort -o out/y", "allow", "shell.program"),
        ("cd out && sort -o y z", "allow", "shell.program"),
        ("git -c a.b=c log && true", "deny", "shell.hazard"),
        ('git -c "$X" log', "deny", "shell.hazard"),
        ('sed "$X" f', "deny", "shell.hazard"),
        ("sed -n 1p f; true", "allow", "shell.program"),
        ("cat x | xargs sed", "deny", "shell.hazard"),
        ("cat x | xargs sed -n 1p", "allow", "shell.program"),
        ("tee $X", "deny", "fs.write"),
        ("tee out/*.txt", "allow", "shell.program"),
        ("tee *.txt", "deny", "fs.write"),
        ("grep x *.py", "allow", "shell.program"),
        ("grep x /etc/*", "deny", "fs.read"),
        ("grep x $X", "escalate", "fs.read"),
        ("env -C $X ls", "escalate", "fs.read"),
        ("echo $(find . -exec id ';')", "deny", "shell.hazard"),
        ("echo $(find . -name x)", "allow", "shell.program"),
    ],
)
def test_commands_in_shell_lines(line: str, verdict: str, code: str) -> None:
    """The same knowledge, where words may not be known."""
    decision = LINES.decide(Request.shell(line, cwd="/srv/ws"))
    assert (decision.verdict, decision.code) == (verdict, code), decision


def test_what_lifts_a_hazard_is_in_its_denial() -> None:
    """The subject can be pasted into ``shell.unsafe``; then the line is allowed."""
    for row in ROWS:
        if (row.policy, row.code) != ("plain", "shell.hazard"):
            continue
        policy: dict[str, Any] = {"shell": {"allow": True, "unsafe": []}}
        for _ in range(4):
            decision = compile(parse(policy)).decide(Request.process(row.argv, cwd="/srv/ws"))
            if decision.verdict == "allow" or decision.rule != "builtin:hazard":
                break
            policy["shell"]["unsafe"].append(decision.subject)
        assert decision.verdict == "allow" or decision.rule == "builtin:control", decision
