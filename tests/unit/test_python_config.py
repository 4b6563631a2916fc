"""What is recorded of ``axon.config.py``. The box around it is tested in tests/box."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from axonkernel import define_agent
from axonkernel.config import evaluate_python, load
from axonkernel.config.loaded import data_digest
from axonkernel.config.source import read_source
from axonkernel.config.trust import TrustStore
from axonkernel.errors import IsolationUnavailable, PolicyError

ROOT = Path(__file__).resolve().parents[2]
RECORDER = ROOT / "axonkernel" / "config" / "record.py"


def recorded(folder: Path, text: str) -> dict[str, Any]:
    """The recorder's document for a configuration of the test's own."""
    path = folder / "axon.config.py"
    path.write_text(text)
    sent = folder / "sent"
    done = subprocess.run(
        ["bash", "-c", 'exec 3>"$1"; shift; exec "$@"', "bash", str(sent),
         sys.executable, "-I", "-B", str(RECORDER), str(path), str(ROOT)],
        input=text.encode(),
        capture_output=True,
        timeout=60,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    document: dict[str, Any] = json.loads(sent.read_bytes())
    return document


def test_the_policy_is_recorded_and_nothing_else_happens(tmp_path: Path) -> None:
    """Decorated functions stay what they are, none is called, and ``run`` does nothing."""
    marker = tmp_path / "called"
    text = f"""
from typing import Annotated
from axonkernel import Agent, PolicyDenied, ReadPath, define_agent

agent: Agent = define_agent(name="reviewer", policy={{"fs": {{"read": ("src",)}}}})

@agent.tool("notes.append")
def append(path: Annotated[str, ReadPath]) -> str:
    open({str(marker)!r}, "w")

@agent.handler
async def main(kernel, request):
    open({str(marker)!r}, "w")

assert append.__name__ == "append" and main.__name__ == "main"
assert issubclass(PolicyDenied, Exception)
agent.run()
if __name__ == "__main__":
    open({str(marker)!r}, "w")
"""
    policy = {"fs": {"read": ["src"]}}
    agent = {"name": "reviewer", "policy": policy, "base": None, "tools": ["notes.append"]}
    assert recorded(tmp_path, text) == {"agents": [agent]}
    assert not marker.exists()


def test_the_module_of_agents_is_stood_in_for_too(tmp_path: Path) -> None:
    """``from axonkernel.agent import define_agent`` records as well."""
    text = "from axonkernel.agent import define_agent as d\nd('a', {'default': 'deny'})\n"
    assert recorded(tmp_path, text)["agents"][0]["policy"] == {"default": "deny"}


def test_all_that_an_agent_is_defined_with_is_taken(tmp_path: Path) -> None:
    """Every keyword of the real ``define_agent``, with an agent that has a kernel elsewhere."""
    keywords = inspect.signature(define_agent).parameters
    given = ", ".join(f"{name}=None" for name in keywords)
    text = f"from axonkernel import define_agent\nagent = define_agent({given})\n"
    guarded = text + "if __name__ == '__main__':\n    agent.kernel()\n"
    assert len(recorded(tmp_path, guarded)["agents"]) == 1
    for made in ("kernel", "open"):
        document = recorded(tmp_path, f"{text}with agent.{made}() as kernel:\n    pass\n")
        assert "under if __name__" in document["error"] and document["line"] == 3


def test_a_policy_value_is_sent_as_data(tmp_path: Path) -> None:
    """A ``Policy`` made in code comes out as the data that parses to it."""
    text = """
from axonkernel import Policy, define_agent
define_agent(policy=Policy(default="deny"))
"""
    assert recorded(tmp_path, text)["agents"][0]["policy"] == {"default": "deny"}


def test_neighbours_and_paths_can_be_used(tmp_path: Path) -> None:
    """A module beside the file is importable, and path objects are paths."""
    (tmp_path / "names.py").write_text("from pathlib import Path\nREAD = [Path('src')]\n")
    text = """
import names
from axonkernel import define_agent
define_agent(policy={"fs": {"read": names.READ}})
"""
    assert recorded(tmp_path, text)["agents"][0]["policy"] == {"fs": {"read": ["src"]}}


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("x = 1\ny = x / 0\n", "ZeroDivisionError", 2),
        ("def f(:\n", "SyntaxError", 1),
        ("import sys\nsys.exit(3)\n", "SystemExit: 3", 2),
        ("import not_installed\n", "ModuleNotFoundError", 1),
        (
            "\nfrom axonkernel import define_agent\ndefine_agent(policy={'a': {1}})",
            "TypeError",
            None,
        ),
    ],
)
def test_a_failure_is_told_with_its_line(
    tmp_path: Path, text: str, says: str, line: int | None
) -> None:
    """Whatever goes wrong comes back as one text and, where there is one, a line."""
    document = recorded(tmp_path, text)
    assert says in document["error"]
    assert document["line"] == line


def as_evaluated(monkeypatch: pytest.MonkeyPatch, document: object) -> None:
    """Let the box send ``document``."""
    sent = document if isinstance(document, bytes) else json.dumps(document).encode()
    monkeypatch.setattr("axonkernel.config.evaluate._run_boxed", lambda path, text: sent)


@pytest.mark.parametrize(
    ("document", "says"),
    [
        (b"", "ended without giving a policy"),
        (b"[" * 100_000, "ended without giving a policy"),
        ([], "ended without giving a policy"),
        ({"agents": []}, "calls define_agent 0 times"),
        ({"agents": [{}, {}]}, "calls define_agent 2 times"),
        ({"agents": [1]}, "define_agent"),
        ({"agents": 7}, "calls define_agent 0 times"),
        ({"error": "NameError: x", "line": 4}, "line 4: NameError: x"),
        ({"error": {"odd": 1}, "line": "no"}, "odd"),
    ],
)
def test_what_the_box_sends_is_not_believed_blindly(
    monkeypatch: pytest.MonkeyPatch, document: object, says: str
) -> None:
    """Anything but one agent is a fault."""
    as_evaluated(monkeypatch, document)
    with pytest.raises(PolicyError, match=says):
        evaluate_python("/p/axon.config.py", b"")


@pytest.mark.parametrize("agent", [{}, {"policy": 7}, {"policy": []}, {"policy": {"fs": 1}}])
def test_an_odd_agent_is_a_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: dict[str, Any]
) -> None:
    """Also when the code in the box sends its own idea of a document."""
    path = tmp_path / "axon.config.py"
    path.write_text("")
    path.chmod(0o644)
    as_evaluated(monkeypatch, {"agents": [agent]})
    if agent:
        with pytest.raises(PolicyError):
            load(str(path), profiles=())
    else:
        assert not load(str(path), profiles=()).policy.declared


def test_the_entry_and_the_name_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The loaded policy tells which file the agent is, and paths count from ``base``."""
    path = tmp_path / "axon.config.py"
    path.write_text("")
    path.chmod(0o644)
    policy = {"fs": {"read": ["src"]}}
    as_evaluated(monkeypatch, {"agents": [{"name": "a", "policy": policy, "base": "sub"}]})
    loaded = load(str(path), profiles=())
    assert (loaded.entry, loaded.name) == (str(path), "a")
    assert loaded.policy.fs is not None
    assert loaded.policy.fs.read == (str(tmp_path / "sub" / "src"),)


def test_rules_for_tools_the_file_does_not_register_are_faults(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it registers any: then a name that is none of them is a slip."""
    path = tmp_path / "axon.config.py"
    path.write_text("")
    path.chmod(0o644)
    policy = {"default": "deny", "tools": {"notes.apend": True, "fs.read": True}}
    agent = {"name": "a", "policy": policy, "base": None, "tools": ["notes.append"]}
    as_evaluated(monkeypatch, {"agents": [agent]})
    with pytest.raises(PolicyError) as caught:
        load(str(path), profiles=())
    assert [(fault.path, fault.hint) for fault in caught.value.faults] == [
        ("$.tools.notes.apend", '"notes.append"')
    ]
    as_evaluated(monkeypatch, {"agents": [{**agent, "tools": ["notes.apend"]}]})
    assert load(str(path), profiles=()).policy.tools is not None
    as_evaluated(monkeypatch, {"agents": [{**agent, "tools": []}]})
    assert load(str(path), profiles=()).policy.tools is not None


def test_a_changed_neighbour_takes_the_trust_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is the same and its policy is not: that needs a new yes."""
    monkeypatch.setenv("HOME", str(tmp_path))
    path = tmp_path / "axon.config.py"
    path.write_text("import names\n")
    path.chmod(0o644)
    store = TrustStore(str(tmp_path / "state" / "trust.json"))
    before = {"name": None, "policy": {"default": "deny"}, "base": None, "tools": []}
    store.add(read_source(str(path), found=True), data_digest(before))
    as_evaluated(monkeypatch, {"agents": [before]})
    options: dict[str, Any] = {"start": str(tmp_path), "profiles": (), "store": store}
    assert load(**options).policy.default == "deny"
    as_evaluated(monkeypatch, {"agents": [{**before, "policy": {"default": "allow"}}]})
    with pytest.raises(PolicyError, match="gives another policy than when it was trusted"):
        load(**options)


def test_without_boxes_python_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no unboxed way: other systems are told to use policy.toml."""
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(IsolationUnavailable, match=r"policy\.toml"):
        evaluate_python("/p/axon.config.py", b"open('/tmp/never', 'w')")
