"""The published JSON Schema agrees with the parser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from axonkernel.policy.parse import parse, policy_block, unparse
from axonkernel.policy.schema import json_schema
from axonkernel.policy.text import loads_data

ACCEPTED: list[dict[str, Any]] = [
    {},
    {"isolation": "best-effort", "default": "deny"},
    {"fs": False, "net": False, "shell": False, "env": False, "tools": False},
    {"fs": {}, "net": {}, "shell": {}, "env": {}, "tools": {}, "limits": {}, "budget": {}},
    {
        "fs": {
            "read": ["./src", "~", "[id]/a b(1)", r"\*"],
            "write": ["/srv"],
            "deny": [".env", "**/*.key", r"\?"],
            "protect": False,
            "unsafe": ["/proc"],
        }
    },
    {"fs": {"read": [], "protect": [".git/hooks"]}},
    {"net": {"allow": True, "dns": "open", "listen": [80], "resolver": "::1"}},
    {"net": {"escalate": ["a.test"], "proxy": "https://u:p@proxy.test:3128/"}},
    {
        "shell": {
            "allow": ["git", "python3*", "./.venv/bin/pytest", "~/x", "*", "[", "a-b"],
            "args": {"git": {"deny": ["push --force*"], "allow": ["", "status *"]}, "./x": {}},
            "spawn": {"max": 3},
            "unsafe": ["git -c"],
        }
    },
    {"shell": {"allow": True, "raw": True, "spawn": True}},
    {"env": {"allow": ["A", "GITHUB_*", "*"], "set": {"TZ": ""}, "unsafe_allow": ["PATH"]}},
    {
        "tools": {
            "*": "escalate",
            "fs": {"read": True, "x": {"y": {"*": False}}},
            "a.deny": "allow",
            "http": {"deny": ["x"]},
            "e": {},
        }
    },
    {"limits": {"memory": "2G", "cpu": "12.5%", "wall": "1h30m", "pids": 1, "disk": 5}},
    {"limits": {"memory": "1.5MiB", "wall": 0.5, "output": "100B"}},
    {"budget": {"turns": 0, "tokens": 1, "usd": 0.5, "tool_calls": 9}},
    {"escalation": {"timeout": "250ms", "headless": "deny"}},
    {"wasm": {"folders": ["t"], "grants": {"read": {"fuel": 1, "dirs": {"d": "/d:rw"}}}}},
    {"box": {"run_as": 0, "devices": ["kvm"], "noexec": True}},
    {"box": {"run_as": "nobody"}},
]

#: Told by the schema as well, so that an editor underlines them.
REFUSED: list[Any] = [
    [],
    None,
    {"shel": {}},
    {"fs": None},
    {"fs": {"deny": [".env"]}},
    {"fs": {"read": "src"}},
    {"fs": {"read": ["*.py"]}},
    {"net": {"dns": "off"}},
    {"net": True},
    {"shell": {"deny": ["yarn"]}},
    {"shell": {"allow": ["git push"]}},
    {"shell": {"allow": [], "raw": 1}},
    {"shell": {"allow": [], "spawn": {"max": -1}}},
    {"env": {"allow": ["A=b"]}},
    {"env": {"set": {"A": 1}}},
    {"tools": {"a": "maybe"}},
    {"tools": {"allow": ["fs.read"]}},
    {"tools": {"a": {"deny": True}}},
    {"limits": {"cpu": 100}},
    {"limits": {"memory": "2GB"}},
    {"limits": {"pids": True}},
    {"limits": False},
    {"box": {"devices": ["gpu"]}},
]


@pytest.fixture(scope="module")
def validator() -> Draft202012Validator:
    """A validator of the schema, which is itself checked."""
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


@pytest.mark.parametrize("data", ACCEPTED)
def test_what_the_parser_accepts_is_valid(
    data: dict[str, Any], validator: Draft202012Validator
) -> None:
    """As written, and as ``unparse`` writes it."""
    policy = parse(data, base="/srv/app", home="/home/ann")
    assert list(validator.iter_errors(data)) == []
    assert list(validator.iter_errors(unparse(policy))) == []


@pytest.mark.parametrize("data", REFUSED, ids=repr)
def test_shape_errors_are_invalid(data: Any, validator: Draft202012Validator) -> None:
    """What a schema can see at all, it refuses like the parser."""
    assert not validator.is_valid(data)


def test_every_field_has_a_description() -> None:
    """An editor shows what each key means."""

    def properties(schema: Any) -> Iterator[tuple[str, Any]]:
        if isinstance(schema, dict):
            yield from schema.get("properties", {}).items()
            for part in schema.values():
                yield from properties(part)
        elif isinstance(schema, list):
            for part in schema:
                yield from properties(part)

    found = dict(properties(policy_block.schema()))
    assert {"isolation", "read", "tls_names", "unsafe_allow", "memory", "headless"} <= found.keys()
    assert [name for name, part in found.items() if name != "max" and not part["description"]] == []


def test_the_schema_is_json() -> None:
    """It prints and reads back unchanged."""
    assert json.loads(json.dumps(json_schema())) == json_schema()


DOCS = Path(__file__).parents[3] / "docs" / "policy.md"
DOC_EXAMPLES = re.findall(r"```toml\n(.*?)```", DOCS.read_text("utf-8"), re.DOTALL)


def test_the_documentation_has_examples() -> None:
    """The next test has something to read."""
    assert len(DOC_EXAMPLES) >= 5


@pytest.mark.parametrize("text", DOC_EXAMPLES)
def test_every_example_of_the_documentation_parses(
    text: str, validator: Draft202012Validator
) -> None:
    """Each TOML block of docs/policy.md is a policy, for the parser and for the schema."""
    data = loads_data(text, "toml")
    parse(data, base="/srv/app", home="/home/ann")
    assert list(validator.iter_errors(data)) == []
