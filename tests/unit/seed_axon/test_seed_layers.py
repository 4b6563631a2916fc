"""What the page "Kernel & Policy" says, sentence by sentence: two layers, one policy: the mediator.

Each docstring starts with the words of the sentence it is about; the sentences about OS
confinement are in ``tests/box/test_seed_axon.py``.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from axonkernel import EscalationDenied, IsolationUnavailable, PolicyDenied, define_agent, telemetry
from axonkernel.escalation import Callback, Question
from unit.memory import MemoryAudit
from unit.seed_axon.world import ESCALATE, PUSH, Make, Repository


@contextmanager
def on_platform(monkeypatch: pytest.MonkeyPatch, name: str) -> Iterator[None]:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "platform", name)
        yield


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_the_mediator_runs_everywhere(
    make: Make, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    """Seed: "The mediator runs everywhere": the same calls are let through and denied."""
    policy = {"fs": {"read": ["./src"]}, "tools": {"fs": {"read": True}}}
    with on_platform(monkeypatch, platform):
        kernel = make(policy)
        assert kernel.call_sync("fs.read", path="src/a.txt") == "text of a"
        with pytest.raises(PolicyDenied):
            kernel.call_sync("fs.read", path="secret.txt")


@pytest.mark.parametrize("platform", ["darwin", "win32"])
def test_other_systems_get_the_mediator_only(
    make: Make, ws: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    """Seed: "macOS and Windows get the mediator only": it is announced; a program that was let
    through reads what was not granted: "a real reduction rather than a formality"."""
    policy = {"fs": {"read": ["./src"]}, "shell": {"allow": ["cat"]}, "env": {"allow": []}}
    with on_platform(monkeypatch, platform):
        kernel = make(policy)
        states = {row.field: row.state for row in kernel.posture()}
        assert states["fs"] == states["env"] == "mediator only"
        assert kernel.process.run_sync(["cat", "secret.txt"]).text == "KEY"


def test_the_full_posture_needs_linux(
    make: Make, ws: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed: "If you want the full posture, run on Linux": strict refuses elsewhere, saying so."""
    with on_platform(monkeypatch, "darwin"):
        policy = {"fs": {"read": ["."]}, "shell": {"allow": ["touch"]}}
        kernel = make({"isolation": "strict", "default": "deny", **policy})
        monkeypatch.setenv("XDG_CACHE_HOME", str(ws / "cache"))
        with pytest.raises(IsolationUnavailable, match="run on Linux"):
            kernel.process.run_sync(["touch", str(ws / "mark")])
    assert not (ws / "mark").exists()


def test_it_gates_every_declared_tool_call(make: Make) -> None:
    """Seed: "It gates every declared tool call": by name, by level, by what is left over."""
    made: list[str] = []
    agent = define_agent()
    for name in ("notes.add", "notes.drop", "other"):
        agent.tool(name)(lambda name=name: made.append(name))
    kernel = make({"tools": {"notes": {"*": True, "drop": False}}}, tools=agent.tools)
    kernel.call_sync("notes.add")
    for name in ("notes.drop", "other"):
        with pytest.raises(PolicyDenied):
            kernel.call_sync(name)
    assert made == ["notes.add"]


def test_it_gates_every_process_run_and_spawn_by_glob(make: Make, ws: Path) -> None:
    """Seed: "... and every process.run/process.spawn by glob": program and arguments."""
    shell = {"allow": ["tou*"], "args": {"touch": {"deny": ["output/never*"]}}, "spawn": True}
    kernel = make({"shell": shell})
    for start in (kernel.process.run_sync, kernel.process.spawn_sync):
        for argv in (["touch", "output/never1"], ["mkdir", "output/d"]):
            with pytest.raises(PolicyDenied):
                start(argv)
    assert kernel.process.run_sync(["touch", "output/run"]).ok
    assert kernel.process.spawn_sync(["touch", "output/spawned"]).wait_sync().ok
    assert {path.name for path in (ws / "output").iterdir()} == {"run", "spawned"}


def test_denials_are_typed_and_escalations_are_raised(make: Make, repository: Repository) -> None:
    """Seed: "returning typed denials, raising escalations": two classes of error, each with a
    code."""
    policy = {**ESCALATE, "tools": {}, "escalation": {"headless": "deny"}}
    kernel = make(policy)
    with pytest.raises(PolicyDenied) as denied:
        kernel.call_sync("fs.read", path="src/a.txt")
    assert (denied.value.code, type(denied.value)) == ("tool", PolicyDenied)
    with pytest.raises(EscalationDenied) as escalated:
        kernel.process.run_sync(PUSH)
    assert (escalated.value.code, escalated.value.outcome) == ("shell.args", "headless")
    assert not repository.pushed


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[tuple[str, dict[str, Any]]]]:
    """What goes to OpenTelemetry, when it is installed: (name, attributes) in order."""
    seen: list[tuple[str, dict[str, Any]]] = []

    @contextmanager
    def start(name: str, attributes: dict[str, Any] | None = None) -> Iterator[Any]:
        kept = dict(attributes or {})
        seen.append((name, kept))
        yield SimpleNamespace(set_attribute=kept.__setitem__)

    trace = ModuleType("opentelemetry.trace")
    trace.get_tracer = lambda name: SimpleNamespace(start_as_current_span=start)  # type: ignore[attr-defined]
    package = ModuleType("opentelemetry")
    package.trace = trace  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "opentelemetry", package)
    monkeypatch.setitem(sys.modules, "opentelemetry.trace", trace)
    telemetry._starter.cache_clear()
    yield seen
    telemetry._starter.cache_clear()


def test_each_decision_has_a_span(
    make: Make, audit: MemoryAudit, spans: list[tuple[str, dict[str, Any]]]
) -> None:
    """Seed: "emitting a span for each decision": as many as the log has, with the same verdicts."""
    policy = {"fs": {"read": ["./src"]}, "tools": {"fs": {"read": True}}, "isolation": "none",
              "shell": {"allow": ["true"]}}  # fmt: skip
    kernel = make(policy)
    kernel.call_sync("fs.read", path="src/a.txt")
    kernel.process.run_sync(["true"])
    for call in (
        lambda: kernel.call_sync("fs.read", path="secret.txt"),
        lambda: kernel.process.run_sync(["false"]),
    ):
        with pytest.raises(PolicyDenied):
            call()
    verdicts = [kept["axon.verdict"] for name, kept in spans if name.startswith("axon.decide ")]
    assert verdicts == audit.decisions() == ["allow", "allow", "deny", "deny"]
    assert [name for name, _ in spans if name.startswith("execute_tool ")] == [
        "execute_tool fs.read", "execute_tool process.run"] * 2  # fmt: skip


def test_it_is_the_layer_that_can_ask_you(make: Make, repository: Repository) -> None:
    """Seed: "It is the layer that can ask you": a yes lets run what no wall could have paused."""
    seen: list[tuple[str, bool]] = []

    def decide(question: Question) -> bool:
        seen.append((question.action, repository.pushed))
        return True

    assert make(ESCALATE, deciders=[Callback(decide)]).process.run_sync(PUSH).ok
    assert repository.pushed
    ((action, pushed_before),) = seen
    assert "push" in action and not pushed_before
