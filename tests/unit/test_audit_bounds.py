"""No record is large, whatever was asked: an agent cannot fill the disk with its refusals."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from axonkernel import Kernel, PolicyDenied, Request
from axonkernel.audit import AuditLog, Redactor
from axonkernel.audit.bounds import MOST_BYTES, bounded
from axonkernel.audit.fields import request_fields
from axonkernel.audit.verify import verify
from axonkernel.policy.request import AnyRequest

POLICY: dict[str, Any] = {"isolation": "none", "tools": {"fs": True}}
_TEXT = st.text(max_size=300).map(lambda text: text * 40)
_DATA = st.recursive(
    st.none() | st.floats(allow_nan=False, allow_infinity=False) | _TEXT | st.just("😀" * 5000),
    lambda inner: st.lists(inner) | st.dictionaries(_TEXT, inner),
)


def _nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


def test_twenty_calls_of_a_huge_name_leave_a_small_log(tmp_path: Path) -> None:
    """Six megabytes are refused, and what is kept of each call is a few thousand characters."""
    name = "x" * 6_000_000
    with Kernel(POLICY, cwd=tmp_path, audit=tmp_path / "log") as kernel:
        for _ in range(20):
            with pytest.raises(PolicyDenied) as denied:
                kernel.call_sync(name)
            assert denied.value.code == "request.too_complex"
    assert (tmp_path / "log").stat().st_size < 20 * 8192
    assert verify(tmp_path / "log") == ()
    kept = json.loads((tmp_path / "log").read_text().splitlines()[0])["request"]["tool"]
    assert kept.startswith("x" * 3900) and len(kept) == 4096
    digest = hashlib.sha256(name.encode()).hexdigest()
    assert kept.endswith(f"x... [cut: 6000000 characters, sha256 {digest}]")


def test_what_is_not_long_is_kept_as_it_is(tmp_path: Path) -> None:
    """The positive twin: 4,096 characters, 256 items, 10 levels and every other value stay."""
    fields = {
        "text": "é" * 4096,
        "items": list(range(256)),
        "deep": _nested(10),
        "mixed": {"a": [1, 2.5, None, True, "b"]},
    }
    AuditLog(tmp_path / "log").record("x", **fields)
    line = json.loads((tmp_path / "log").read_text())
    assert {name: line[name] for name in fields} == fields


@pytest.mark.parametrize(
    "value",
    [
        ["w" * 4000] * 10_000,
        {f"name{n}": "v" * 4096 for n in range(10_000)},
        {"k" * 1_000_000: 1},
        ["😀" * 4096] * 24,
        _nested(300),
        [10**4000] * 1000,
        [["a" * 4096] * 256] * 256,
    ],
    ids=["words", "fields", "name", "wide", "deep", "numbers", "square"],
)
def test_a_record_is_never_longer_than_its_cap(tmp_path: Path, value: Any) -> None:
    """Many items, long names, wide characters, deep nesting: the line is short and valid."""
    log = AuditLog(tmp_path / "log")
    log.record("decision", verdict="deny", code="tool", request={"args": value})
    log.record("next")
    first, second = (tmp_path / "log").read_bytes().splitlines()
    assert len(first) <= MOST_BYTES + 200
    line = json.loads(first)
    assert (line["verdict"], line["code"]) == ("deny", "tool")
    assert json.loads(second)["kind"] == "next" and verify(tmp_path / "log") == ()


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(_TEXT, _DATA))
def test_any_data_is_bounded_json(entry: dict[str, Any]) -> None:
    """Whatever the data: a JSON object of at most the cap."""
    text = bounded(entry)
    assert len(text) <= MOST_BYTES and text.isascii()
    assert isinstance(json.loads(text), dict)


def test_numbers_that_json_has_not_are_recorded(tmp_path: Path) -> None:
    """Infinity and NaN become text instead of making the log unwritable."""
    AuditLog(tmp_path / "log").record("x", n=[float("inf"), float("nan"), 1.5])
    assert json.loads((tmp_path / "log").read_text())["n"] == ["inf", "nan", 1.5]


def test_a_secret_at_the_cut_is_left_out_whole(tmp_path: Path) -> None:
    """What is cut was redacted before: no half of a secret is kept."""
    log = AuditLog(tmp_path / "log")
    log.redactor.conceal("s3cr3t-value")
    for before in range(3950, 4100):
        log.record("x", text="y" * before + "s3cr3t-value" + "z" * 200)
    text = (tmp_path / "log").read_text()
    assert "s3" not in text.replace("sha256", "") and "y[redacted]" in text and "y[reda." in text


def test_redaction_takes_time_in_proportion() -> None:
    """A word of a megabyte in front of a URL is read once, and its password is still found."""
    started = time.process_time()
    kept = Redactor()("a" * 1_000_000 + "://user:hunter22@host")
    assert time.process_time() - started < 10
    assert kept.endswith("://user:[redacted]@host")


@pytest.mark.parametrize(
    "request_",
    [
        Request.tool("x" * 20_000_000),
        Request.tool("x", {"text": "\U0001f600" * 1_000_000}),
        Request.tool("x", {"text": "y" * 20_000_000, "password": "hunter22"}),
        Request.tool("x", {"a": _nested(900)}),
        Request.process(["w" * 1000] * 20_000),
        Request.process(["w"], env=["\U0001f600" * 1_000_000]),
        Request.shell("\U0001f600" * 1_000_000),
        Request.read("/" + "x" * 20_000_000),
        Request.connect("x" * 20_000_000),
        Request.env("x" * 20_000_000),
    ],
    ids=lambda request: type(request).__name__,
)
def test_a_record_of_any_request_crosses_the_wall_of_a_box(request_: AnyRequest) -> None:
    """However large the request: data of a megabyte, without secrets, that JSON can hold."""
    text = json.dumps(request_fields(request_))
    assert len(text) <= 1024 * 1024 and "hunter22" not in text


def test_a_record_of_an_ordinary_request_is_whole() -> None:
    """The positive twin: 200,000 characters of arguments are data again."""
    args = {"text": "y" * 200_000, "deep": _nested(50)}
    assert request_fields(Request.tool("x", args)) == {"tool": "x", "args": args}
