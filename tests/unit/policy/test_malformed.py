"""Malformed policies: every fault at once, at its exact place, with a fix; and each one mended."""

from __future__ import annotations

from typing import Any

import pytest

from axonkernel.errors import PolicyError
from axonkernel.policy.model import Policy
from axonkernel.policy.parse import parse
from unit.policy.malformed import files, names, network, numbers, programs, shape, variables
from unit.policy.malformed.row import Row

TABLES = (shape, files, network, programs, variables, names, numbers)
ROWS: list[Row] = [row for table in TABLES for row in table.ROWS]
IDS = [row[0] for row in ROWS]


def faults_of(data: Any) -> dict[str, str]:
    """Fault path to hint."""
    with pytest.raises(PolicyError) as caught:
        parse(data, base="/srv/app", home="/home/ann", source="p.toml")
    found = {fault.path: fault.hint for fault in caught.value.faults}
    assert len(found) == len(caught.value.faults), caught.value
    return found


def test_there_are_at_least_forty_malformed_policies() -> None:
    """The promise of the documentation, counted."""
    assert len(ROWS) >= 40


@pytest.mark.parametrize(("_name", "bad", "fixes", "_good"), ROWS, ids=IDS)
def test_every_fault_is_reported_at_once_with_its_fix(
    _name: str, bad: Any, fixes: dict[str, str], _good: dict[str, Any]
) -> None:
    """Exactly the expected places are faults, and each fix names what to write."""
    found = faults_of(bad)
    assert found.keys() == fixes.keys()
    assert {path: fix in found[path] for path, fix in fixes.items()} == dict.fromkeys(fixes, True)


@pytest.mark.parametrize(("_name", "_bad", "_fixes", "good"), ROWS, ids=IDS)
def test_the_mended_policy_is_accepted(
    _name: str, _bad: Any, _fixes: dict[str, str], good: dict[str, Any]
) -> None:
    """The positive twin of each malformed policy parses."""
    assert isinstance(parse(good, base="/srv/app", home="/home/ann"), Policy)


def test_faults_of_all_blocks_come_together() -> None:
    """One error lists the faults of every malformed block in one policy."""
    rows = [table.ROWS[0] for table in TABLES if table is not shape] + [numbers.ROWS[4]]
    merged = {key: block for row in rows for key, block in row[1].items()}
    expected = {path for row in rows for path in row[2]}
    assert faults_of(merged).keys() == expected
    assert len(expected) > 10


def test_the_message_names_source_place_value_and_fix() -> None:
    """What a person reads: the file, then one line per fault and one per fix."""
    with pytest.raises(PolicyError) as caught:
        parse({"limits": {"memry": "2G", "cpu": 2}}, source="policy.toml")
    text = str(caught.value)
    assert text.startswith("policy.toml: 2 faults\n")
    assert "$.limits.memry: is not a known key (got 'memry')\n    fix: memory" in text
    assert "$.limits.cpu: is not a share of a core (got 2)\n    fix: write a percentage" in text


@pytest.mark.parametrize("depth", [40, 5_000])
def test_a_table_without_end_is_a_fault(depth: int) -> None:
    """Nesting is bounded, so a hostile table cannot exhaust the stack."""
    data: dict[str, Any] = {"x": True}
    for _ in range(depth):
        data = {"x": data}
    assert len(faults_of({"tools": data})) == 1


def test_a_table_that_holds_itself_is_a_fault() -> None:
    """Python data can be circular; it is refused, not followed."""
    data: dict[str, Any] = {}
    data["x"] = data
    assert len(faults_of({"tools": data})) == 1


@pytest.mark.parametrize("block", ["fs", "net", "shell", "env"])
def test_a_misspelt_key_is_one_fault(block: str) -> None:
    """It is not also told to be a block that grants nothing, with ``/`` as the fix."""
    assert faults_of({block: {"raed": ["."]}}).keys() == {f"$.{block}.raed"}
    assert faults_of({"fs": {"deny": [".env"]}}).keys() == {"$.fs"}
