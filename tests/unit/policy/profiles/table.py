"""The rows of rows.toml, as tests use them."""

from __future__ import annotations

import shlex
import tomllib
from pathlib import Path
from typing import NamedTuple

from axonkernel.policy.decide import Ruleset, compile
from axonkernel.policy.parse import parse

__all__ = ["ROWS", "Row", "rulesets"]


class Row(NamedTuple):
    """One line of the table; ``twin`` is () where the row itself is allowed."""

    policy: str
    argv: tuple[str, ...]
    verdict: str
    code: str
    twin: tuple[str, ...]


def _read() -> tuple[list[Row], dict[str, Ruleset]]:
    tables = tomllib.loads((Path(__file__).parent / "rows.toml").read_text())
    rows = [_row(name, *row) for name, table in tables.items() for row in table["rows"]]
    return rows, {name: compile(parse(table["policy"])) for name, table in tables.items()}


def _row(policy: str, line: str, said: str, twin: str = "") -> Row:
    verdict, code = said.split()
    return Row(policy, tuple(shlex.split(line)), verdict, code, tuple(shlex.split(twin)))


ROWS, rulesets = _read()
