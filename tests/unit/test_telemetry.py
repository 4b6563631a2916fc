"""Spans: there where OpenTelemetry is, and harmless where it is not."""

from __future__ import annotations

import sys
import types
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from axonkernel import Kernel, PolicyDenied, telemetry


class Tracer:
    """Keeps the spans it was asked for, with their depth."""

    def __init__(self) -> None:
        self.spans: list[tuple[int, str, dict[str, Any]]] = []
        self.events: list[tuple[str, str, Any]] = []
        self.depth = 0
        self.current: list[str] = []

    @contextmanager
    def start_as_current_span(self, name: str, attributes: Any = None) -> Iterator[Any]:
        kept = dict(attributes or {})
        self.spans.append((self.depth, name, kept))
        self.depth += 1
        self.current.append(name)
        try:
            yield types.SimpleNamespace(set_attribute=kept.__setitem__)
        finally:
            self.depth -= 1
            self.current.pop()

    def get_current_span(self) -> Any:
        name = self.current[-1]
        return types.SimpleNamespace(
            add_event=lambda event, fields: self.events.append((name, event, fields))
        )


@pytest.fixture
def tracer(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tracer]:
    """Stands in for an installed OpenTelemetry."""
    tracer = Tracer()
    package: Any = types.ModuleType("opentelemetry")
    package.trace = types.SimpleNamespace(
        get_tracer=lambda name: tracer, get_current_span=tracer.get_current_span
    )
    monkeypatch.setitem(sys.modules, "opentelemetry", package)
    telemetry._starter.cache_clear()
    yield tracer
    telemetry._starter.cache_clear()


def test_a_call_is_a_span_with_its_decision_below(tracer: Tracer, tmp_path: Path) -> None:
    """``execute_tool NAME`` and its child ``axon.decide NAME``, with verdict and code."""
    (tmp_path / "a").write_text("x")
    kernel = Kernel(
        {"isolation": "none", "tools": {"fs": True}}, cwd=tmp_path, audit=tmp_path / "log"
    )
    kernel.call_sync("fs.read", path="a")
    with pytest.raises(PolicyDenied):
        kernel.call_sync("mail.send")
    assert [(depth, name) for depth, name, _ in tracer.spans] == [
        (0, "execute_tool fs.read"),
        (1, "axon.decide fs.read"),
        (0, "execute_tool mail.send"),
        (1, "axon.decide mail.send"),
    ]
    assert tracer.spans[0][2]["gen_ai.tool.name"] == "fs.read"
    assert [tracer.spans[n][2]["axon.verdict"] for n in (1, 3)] == ["allow", "deny"]


def test_no_word_of_a_call_is_in_a_span(tracer: Tracer, tmp_path: Path) -> None:
    """Arguments can hold secrets; names of spans and attributes do not."""
    kernel = Kernel(cwd=tmp_path, audit=tmp_path / "log")
    kernel.process.run_sync(["printf", "hunter2"])
    assert [name for _, name, _ in tracer.spans] == [
        "execute_tool process.run",
        "axon.decide process.run",
    ]
    assert "hunter2" not in repr(tracer.spans)


@pytest.mark.requires("box", "net")
def test_what_a_program_was_refused_on_the_network_is_told(tracer: Tracer, tmp_path: Path) -> None:
    """A ``net.drop`` event in the span of its call, with name, port and count; a call that was
    refused nothing has none."""
    look_up = "import socket\ntry: socket.gethostbyname('no.test')\nexcept OSError: pass"
    net = {"net": {"allow": []}}
    with Kernel(net, cwd=tmp_path, audit=tmp_path / "log") as kernel:
        assert kernel.process.run_sync(["/usr/bin/python3", "-ISc", look_up]).ok
        assert kernel.process.run_sync(["true"]).ok
    ((span, event, fields),) = tracer.events
    assert (span, event) == ("execute_tool process.run", "net.drop")
    assert (fields["axon.name"], fields["axon.protocol"], fields["axon.port"]) == (
        "no.test", "dns", 0,
    )  # fmt: skip
    assert fields["axon.times"] >= 1
    assert all(isinstance(value, str | int | float) for value in fields.values())


def test_without_opentelemetry_nothing_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    """A span is an empty context."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    telemetry._starter.cache_clear()
    with telemetry.tool_span("x") as outer, telemetry.decide_span("x") as inner:
        assert outer is None and inner is None
    telemetry._starter.cache_clear()
