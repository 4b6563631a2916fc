"""Calls that no system call or JSON text can hold are denied, whatever the policy allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from axonkernel import Kernel, PolicyDenied, Request, ToolError
from axonkernel.policy.request import AnyRequest, ToolRequest

HALF = "out/\ud800"
HALVES = [HALF, "\udfff", "a\udbffb", "\udc7f", "\udd00", "\ud83d\udc80"]


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    """Everything is allowed; what is not well formed is denied all the same."""
    (tmp_path / "out").mkdir()
    policy: dict[str, Any] = {
        "isolation": "none",
        "fs": {"write": ["."], "protect": False},
        "net": {"allow": True},
        "shell": {"allow": True, "raw": True},
        "env": {"allow": ["*"]},
    }
    with Kernel(policy, cwd=tmp_path, audit=tmp_path / "log") as kernel:
        yield kernel


def _requests(text: str) -> list[AnyRequest]:
    return [
        Request.read(text),
        Request.write(text),
        Request.process(["true", text]),
        Request.process([text]),
        Request.process(["true"], cwd=f"/{text}"),
        Request.process(["true"], env=[text]),
        Request.shell(f"true '{text}'"),
        Request.shell(f"true > '{text}'"),
        Request.shell("true | true", cwd=f"/{text}"),
        Request.shell("true", env=[text]),
        Request.env(text),
        Request.connect(f"{text.replace('/', '')}.test:443"),
        Request.tool(text),
        Request.tool("x", {"a": [{"b": text}]}),
        Request.tool("x", {text: 1}),
        Request.tool("fs.read", {"path": text}),
        ToolRequest("x", '{"a":"\\uD800"}'),
    ]


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("number", range(len(_requests(""))))
def test_half_a_character_is_malformed(kernel: Kernel, half: str, number: int) -> None:
    """In every part of every kind of request: decided, explained and told without raising."""
    request = _requests(half)[number]
    assert kernel.check(request).code == "request.malformed"
    assert kernel.explain(request).decision.verdict == "deny"
    with pytest.raises(PolicyDenied) as denied:
        kernel.require_sync(request)
    assert denied.value.code == "request.malformed"
    str(denied.value).encode()


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize(
    "call",
    [
        lambda kernel, half: kernel.call_sync("fs.write", path="out/a", text=half),
        lambda kernel, half: kernel.call_sync("fs.write", path=half, text="a"),
        lambda kernel, half: kernel.call_sync("fs.remove", path=half),
        lambda kernel, half: kernel.call_sync("http.fetch", url=f"http://{half}.test/"),
        lambda kernel, half: kernel.call_sync(half),
        lambda kernel, half: kernel.process.run_sync(["touch", f"out/b{half}"]),
        lambda kernel, half: kernel.process.run_sync(["touch", "out/c"], env={half: "1"}),
        lambda kernel, half: kernel.process.run_sync(["touch", "out/c"], env={"A": half}),
        lambda kernel, half: kernel.process.run_sync(["touch", "c"], cwd=half),
        lambda kernel, half: kernel.process.run_sync(f"touch out/d | echo {half}", raw=True),
        lambda kernel, half: kernel.process.run_sync(f"touch out/d | echo {half}"),
        lambda kernel, half: kernel.process.spawn_sync(["touch", f"out/b{half}"]),
        lambda kernel, half: kernel.run_block_sync("bash", f"touch out/e; : {half}"),
        lambda kernel, half: kernel.run_block_sync("python", f"open('out/e', 'w')  # {half}"),
    ],
)
def test_no_call_with_half_a_character_runs(
    kernel: Kernel, tmp_path: Path, call: Callable[[Kernel, str], Any], half: str
) -> None:
    """A denial that can be printed, and nothing was made."""
    with pytest.raises(PolicyDenied) as denied:
        call(kernel, half)
    str(denied.value).encode()
    assert list((tmp_path / "out").iterdir()) == []


def test_undecodable_bytes_in_names_stay_usable(kernel: Kernel, tmp_path: Path) -> None:
    """The positive twin: a file whose name is no UTF-8, and a character beyond 16 bits."""
    name = "out/\udcff-\U0001f600"
    assert kernel.check(Request.write(name)).verdict == "allow"
    kernel.call_sync("fs.write", path=name, text="a\U0001f600")
    assert kernel.process.run_sync(["cat", name], env={"A": "\udcfe"}).stdout.startswith(b"a")
    assert kernel.process.run_sync(f"cat '{name}' | cat", raw=True).exit_code == 0
    assert [entry.name for entry in (tmp_path / "out").iterdir()] == [name[4:]]


@pytest.mark.parametrize(
    "args", [{}, {"path": None}, {"path": {"a": 1}}, {"path": 3}, {"path": "a", "more": 1}]
)
def test_a_call_that_does_not_fit_is_not_said_to_be_allowed(
    kernel: Kernel, args: dict[str, Any]
) -> None:
    """What it touches cannot be told: check and explain deny; a call fails as a call."""
    request = Request.tool("fs.read", args)
    assert (kernel.check(request).verdict, kernel.check(request).code) == (
        "deny",
        "request.malformed",
    )
    explained = kernel.explain(request)
    assert (explained.decision.code, explained.changes) == ("request.malformed", ())
    with pytest.raises(ToolError):
        kernel.call_sync("fs.read", **args)
    assert kernel.check(Request.tool("fs.read", {"path": "out"})).verdict == "allow"


def test_the_rules_about_the_name_come_first(tmp_path: Path) -> None:
    """A tool that is denied is denied as such, whether its arguments fit or not."""
    policy = {"isolation": "none", "tools": {"fs": {"read": False}, "*": True}}
    with Kernel(policy, cwd=tmp_path, audit=tmp_path / "log") as kernel:
        assert kernel.check(Request.tool("fs.read", {})).code == "tool"
        with pytest.raises(PolicyDenied) as denied:
            kernel.call_sync("fs.read")
        assert denied.value.code == "tool"
        assert kernel.check(Request.tool("fs.list", {"nope": 1})).code == "request.malformed"


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_has_not_are_malformed(kernel: Kernel, number: float) -> None:
    """Wherever they stand; their names as text and large numbers are fine."""
    for args in ({"n": number}, {"n": [{"a": number}]}):
        assert kernel.check(Request.tool("x", args)).code == "request.malformed"
        with pytest.raises(PolicyDenied):
            kernel.call_sync("x", **args)
    assert kernel.check(Request.tool("x", {"n": "NaN, -Infinity", "m": 1e300})).verdict == "allow"


def test_data_that_cannot_be_written_down_is_malformed(kernel: Kernel) -> None:
    """A cycle, names of two types, a number of 5,000 digits, text that is no object."""
    cycle: list[Any] = []
    cycle.append(cycle)
    for args in ({"a": cycle}, {"a": {1: 2, "b": 3}}, {"a": 10**5000}):
        assert kernel.check(Request.tool("x", args)).code == "request.malformed"
        with pytest.raises(PolicyDenied):
            kernel.call_sync("x", **args)
    for text in ("", "[]", "null", '"x"'):
        assert kernel.check(ToolRequest("x", text)).code == "request.malformed"
    assert kernel.check(ToolRequest("x", '{"a":"\\ud83d\\ude00"}')).verdict == "allow"


def test_nesting_is_too_complex_before_anything_is_copied(kernel: Kernel) -> None:
    """Deep data is denied by its depth, in a check and in a call; a little depth is fine."""
    deep: list[Any] = []
    for _ in range(800):
        deep = [deep]
    assert kernel.check(Request.tool("fs.read", {"path": deep})).code == "request.too_complex"
    with pytest.raises(PolicyDenied) as denied:
        kernel.call_sync("fs.read", path="a", offset=deep)
    assert denied.value.code == "request.too_complex"
    assert kernel.check(Request.tool("x", {"path": [[[]]]})).verdict == "allow"


def test_what_a_denial_says_is_bounded(kernel: Kernel) -> None:
    """A denial does not carry a megabyte of what was asked back to the asker."""
    long = "x" * 2_000_000
    for request in _requests(long)[:-1]:
        assert len(request.action) < 5000
        with pytest.raises(PolicyDenied) as denied:
            kernel.require_sync(request)
        assert len(str(denied.value)) < 5000
    assert Request.process(["git", "status"]).action == 'run ["git", "status"]'


def test_a_word_no_program_can_be_started_with_is_too_complex(
    kernel: Kernel, tmp_path: Path
) -> None:
    """One byte more than the kernel takes, among the words or the variables: denied, and
    nothing ran; with the longest that fits it does."""
    fits = "x" * 131_071
    calls: list[Callable[[str], Any]] = [
        lambda word: kernel.process.run_sync(["touch", "-c", "out/no", "--", word]),
        lambda word: kernel.process.run_sync(["touch", "out/ran"], env={"A": word}),
        lambda word: kernel.process.spawn_sync(["touch", "out/ran"], env={"A": word}),
    ]
    for call in calls:
        for word in (fits + "x", "ü" * 65_536):
            with pytest.raises(PolicyDenied) as denied:
                call(word)
            assert denied.value.code == "request.too_complex"
    assert list((tmp_path / "out").iterdir()) == []
    assert kernel.check(Request.process(["touch", "ü" * 65_535])).verdict == "allow"
    assert calls[1](fits[2:]).exit_code == 0
    assert (tmp_path / "out/ran").exists()
