"""TOML and JSON text becomes a policy, or every fault of it."""

from __future__ import annotations

import json
from typing import Literal

import pytest

from axonkernel.errors import PolicyError
from axonkernel.policy.parse import parse
from axonkernel.policy.text import loads, loads_data

TOML = """
default = "deny"
[fs]
read = ["./src"]
[shell]
allow = ["git"]
args.git = { deny = ["push --force*"] }
[tools]
http.fetch = "escalate"
"""


def test_toml_and_json_say_the_same() -> None:
    """One shape, two spellings."""
    data = {
        "default": "deny",
        "fs": {"read": ["./src"]},
        "shell": {"allow": ["git"], "args": {"git": {"deny": ["push --force*"]}}},
        "tools": {"http": {"fetch": "escalate"}},
    }
    expected = parse(data, base="/srv/app")
    assert loads(TOML, "toml", base="/srv/app") == expected
    assert loads("\ufeff" + json.dumps(data), "json", base="/srv/app") == expected
    assert loads_data(TOML, "toml") == data


@pytest.mark.parametrize(
    ("text", "format", "part"),
    [
        ("[fs]\nread = [", "toml", "line 2"),
        ("a = 1\na = 2", "toml", "line 2"),
        ("[fs]\n[fs]", "toml", "line 2"),
        ('{\n"fs": }', "json", "line 2"),
        ("", "json", "line 1"),
        ("[" * 100_000, "json", "nested too deep"),
        ('{"limits": {"pids": NaN}}', "json", "NaN is not JSON"),
        ('{"limits": {"pids": ' + "9" * 5000 + "}}", "json", "is not a policy"),
    ],
)
def test_text_out_of_format_names_the_line(
    text: str, format: Literal["toml", "json"], part: str
) -> None:
    """A syntax error is one fault at the top, with the line where there is one."""
    with pytest.raises(PolicyError) as caught:
        loads(text, format, source="p")
    (fault,) = caught.value.faults
    assert fault.path == "$"
    assert part in fault.message


def test_json_keys_written_twice_come_with_all_other_faults() -> None:
    """Each duplicate has its place; what else is wrong is reported in the same run."""
    text = """{
        "fs": {"read": [], "read": ["a"]},
        "net": false, "net": {"dns": "of"},
        "x": [{"y": 1, "y": 2}]
    }"""
    with pytest.raises(PolicyError) as caught:
        loads(text, "json")
    assert [fault.path for fault in caught.value.faults] == [
        "$.fs.read",
        "$.net",
        "$.x[0].y",
        "$.net.dns",
        "$.net",
        "$.x",
    ]
    with pytest.raises(PolicyError, match="written twice"):
        loads_data(text, "json")


@pytest.mark.parametrize("text", ["[]", "null", '"allow"', "true", "12"])
def test_json_that_is_no_object_is_no_policy(text: str) -> None:
    """``null`` in a file is a fault, not "no policy"."""
    with pytest.raises(PolicyError, match="must be a table"):
        loads(text, "json")


def test_toml_dates_are_faults_not_crashes() -> None:
    """TOML has types that JSON has not; none of them is a policy value."""
    with pytest.raises(PolicyError) as caught:
        loads("limits.wall = 07:32:00\nenv.set.A = 1979-05-27\nbudget.usd = inf", "toml")
    assert [fault.path for fault in caught.value.faults] == [
        "$.limits.wall",
        "$.env.set.A",
        "$.budget.usd",
    ]
