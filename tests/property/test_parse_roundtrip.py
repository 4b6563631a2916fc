"""Parsing is total, writing back loses nothing, and the schema accepts both."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from axonkernel.errors import PolicyError
from axonkernel.policy.lint import lints
from axonkernel.policy.model import Policy
from axonkernel.policy.parse import parse, unparse
from axonkernel.policy.schema import json_schema
from axonkernel.policy.text import loads

VALIDATOR = Draft202012Validator(json_schema())

word = st.from_regex(r"[a-z][a-z0-9_-]{0,6}", fullmatch=True)
segment = st.one_of(
    word, st.sampled_from(["[id]", "a b", "ü{}", "..", ".", r"\*", r"x\?y", "\udcff"])
)
path = st.builds(
    lambda root, parts: root + "/".join(parts),
    st.sampled_from(["", "/srv/", "./", "~/"]),
    st.lists(segment, min_size=1, max_size=4),
)
glob = st.one_of(path, st.builds(lambda text: f"{text}/**/*.key", path))
host = st.sampled_from(
    [
        "a.test",
        "*.b.test:80",
        "10.0.0.0/8:*",
        "[::1]:53/udp",
        "public",
        "private:1-9",
        "*",
        "192.0.2.1",
    ]
)
pattern = st.lists(st.one_of(word, st.just("--*")), min_size=1, max_size=3).map(" ".join)
variable = st.from_regex(r"[A-F]{1,4}_X", fullmatch=True)
verdict = st.sampled_from([True, False, "allow", "deny", "escalate"])


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A table with any of the fields."""
    return st.fixed_dictionaries({}, optional=fields)


def lists(entry: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    """A short list."""
    return st.lists(entry, max_size=3)


rules = some(allow=lists(pattern), deny=lists(pattern), escalate=lists(pattern))
levels = st.recursive(
    verdict | rules.filter(bool),
    lambda below: st.dictionaries(st.one_of(word, st.just("*")), below, max_size=3).filter(
        lambda table: not isinstance(table.get("*"), dict) or "*" not in table
    ),
    max_leaves=6,
)
size = st.one_of(st.integers(1, 2**40), st.sampled_from(["2G", "1.5K", "7MiB"]))
wall = st.one_of(st.floats(0.001, 1e6), st.sampled_from(["30m", "1h30m", "250ms"]))
fs = st.fixed_dictionaries(
    {"read": lists(path)},
    optional={
        "write": lists(path),
        "deny": lists(glob),
        "protect": st.one_of(st.just(False), lists(glob)),
    },
)
net = st.fixed_dictionaries(
    {"allow": st.one_of(st.just(True), lists(host))},
    optional={
        "deny": lists(host),
        "escalate": lists(host),
        "listen": lists(st.integers(1, 65535)),
        "dns": st.sampled_from(["open", "off"]),
        "unix": st.sampled_from(["box", "none"]),
    },
)
program = st.one_of(word, path.filter(lambda text: "/" in text), st.just("python3*"))
shell = st.fixed_dictionaries(
    {"allow": st.one_of(st.just(True), lists(program))},
    optional={
        "deny": lists(program),
        "args": st.dictionaries(program, rules, max_size=2),
        "raw": st.booleans(),
        "spawn": st.one_of(st.booleans(), st.fixed_dictionaries({"max": st.integers(0, 9)})),
    },
)
policies = some(
    isolation=st.sampled_from(["none", "best-effort", "auto", "strict"]),
    default=st.sampled_from(["allow", "deny"]),
    fs=st.one_of(st.just(False), fs),
    net=st.one_of(st.just(False), net),
    shell=st.one_of(st.just(False), shell),
    env=some(
        allow=lists(variable),
        set=st.dictionaries(variable, st.text("ab\n=", max_size=4), max_size=2),
    ),
    tools=st.one_of(st.just(False), st.dictionaries(word, levels, max_size=3)),
    limits=some(
        memory=size,
        wall=wall,
        cpu=st.integers(1, 9999).map(lambda n: f"{n / 10}%"),
        pids=st.integers(1, 99),
    ),
    budget=some(turns=st.integers(0, 9), usd=st.floats(0, 100)),
    escalation=some(timeout=wall, headless=st.sampled_from(["wait", "deny"])),
    box=some(run_as=st.one_of(st.integers(0, 9), word), noexec=st.booleans()),
)
#: Of the right words and the wrong shapes.
vocabulary = st.sampled_from(
    [
        "fs",
        "net",
        "shell",
        "env",
        "tools",
        "limits",
        "read",
        "write",
        "deny",
        "allow",
        "args",
        "set",
        "*",
        "wasm",
        "grants",
        "box",
        "spawn",
        "max",
        "a.b",
        "LD_X",
        "~",
        "2G",
        "\0",
        "\ud800",
        "a=b",
        "[",
        "'",
        "*.a",
    ]
)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | vocabulary | st.text(max_size=5),
    lambda below: st.lists(below, max_size=3) | st.dictionaries(vocabulary, below, max_size=4),
    max_leaves=12,
)


def parsed(data: dict[str, Any]) -> Policy | None:
    """The policy, or None for one with faults (a path both granted and denied)."""
    try:
        return parse(data, base="/srv/app", home="/home/ann")
    except PolicyError:
        return None


@given(policies)
def test_writing_back_loses_nothing(data: dict[str, Any]) -> None:
    """``parse(unparse(p)) == p``, in JSON, with no folder to count from."""
    policy = parsed(data)
    if policy is not None:
        text = json.dumps(unparse(policy))
        assert parse(unparse(policy)) == policy
        assert loads(text, "json") == policy


@given(policies)
def test_the_generator_makes_mostly_good_policies(data: dict[str, Any]) -> None:
    """Faults here are only a path both granted and denied, or one program in two spellings.

    With more of them the other laws would prove little.
    """
    try:
        parse(data, base="/srv/app", home="/home/ann")
    except PolicyError as error:
        assert {fault.path.partition("[")[0] for fault in error.faults} <= {
            "$.fs.deny",
            "$.shell.args",
        }


@given(policies)
def test_the_schema_accepts_what_the_parser_accepts(data: dict[str, Any]) -> None:
    """Both the written and the rewritten form."""
    policy = parsed(data)
    if policy is not None:
        assert list(VALIDATOR.iter_errors(data)) == []
        assert list(VALIDATOR.iter_errors(unparse(policy))) == []


@given(anything)
@settings(max_examples=400)
def test_parsing_is_total(data: Any) -> None:
    """Any data is a policy or a PolicyError with a path for each fault; nothing else is raised."""
    try:
        policy = parse(data, base="/srv/app", home="/home/ann")
    except PolicyError as error:
        assert error.faults
        assert all(fault.path.startswith("$") and fault.message for fault in error.faults)
        assert str(error)
    else:
        assert VALIDATOR.is_valid(data)
        assert isinstance(lints(policy), tuple)


@given(policies)
def test_remarks_never_fail_and_name_a_place(data: dict[str, Any]) -> None:
    """Every accepted policy can be looked over."""
    policy = parsed(data)
    if policy is not None:
        assert all(remark.path.startswith("$") and remark.message for remark in lints(policy))
