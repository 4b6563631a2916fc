"""define_agent: a policy, tools and a handler, from the file that declares them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import anyio
import pytest

from axonkernel import Agent, Kernel, PolicyDenied, PolicyError, WritePath, define_agent
from axonkernel.kernel import unrestricted
from axonkernel.policy.parse import parse
from unit.memory import MemoryAudit

ROOT = Path(__file__).resolve().parents[3]


def test_an_agent_as_in_the_documentation(ws: Path) -> None:
    """Tools, handler and open() work together."""
    agent = define_agent(
        name="reviewer",
        policy={"isolation": "none", "fs": {"read": ["."], "write": ["./out"]}},
        base=ws,
    )

    @agent.tool("notes.append")
    def append(path: Annotated[str, WritePath], text: str) -> None:
        with open(path, "a") as file:
            file.write(text)

    @agent.handler
    async def review(kernel: Kernel, request: str) -> str:
        await kernel.call("notes.append", path="out/notes", text=request)
        text: str = await kernel.call("fs.read", path="out/notes")
        return text

    audit = MemoryAudit()

    async def main() -> None:
        async with agent.open(audit=audit) as kernel:
            assert await kernel.request("hello") == "hello"
            with pytest.raises(PolicyDenied):
                await kernel.call("notes.append", path="a.txt", text="x")

    anyio.run(main)
    assert audit.records[0]["agent"] == "reviewer"
    assert (ws / "a.txt").read_text() == "text of a"
    assert callable(append)


def test_paths_count_from_the_defining_file(tmp_path: Path) -> None:
    """Not from the working directory; the file is known as the entry."""
    file = tmp_path / "my_agent.py"
    file.write_text(
        "from axonkernel import define_agent\n"
        "agent = define_agent(policy={'fs': {'read': ['./src']}})\n"
    )
    scope: dict[str, object] = {"__file__": str(file), "__name__": "my_agent"}
    exec(compile(file.read_text(), str(file), "exec"), scope)
    agent = scope["agent"]
    assert isinstance(agent, Agent) and agent.policy.fs is not None
    assert agent.policy.fs.read == (str(tmp_path / "src"),)
    assert (agent.name, agent.entry, agent.base) == ("my_agent", str(file), str(tmp_path))


def test_a_faulty_policy_is_told_at_once() -> None:
    """All faults, when the agent is defined."""
    with pytest.raises(PolicyError) as caught:
        define_agent(policy={"fs": {"raed": []}, "limits": {"memory": "2X"}})
    assert len(caught.value.faults) >= 2


FAULTY = "from axonkernel import define_agent, errors\ndefine_agent(policy={'fs': {'raed': []}})\n"


def script(folder: Path, text: str, *, debug: str = "") -> subprocess.CompletedProcess[str]:
    """``python agent.py`` with this text."""
    (folder / "agent.py").write_text(text)
    return subprocess.run(
        [sys.executable, "agent.py"],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "AXON_DEBUG": debug},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_script_with_a_faulty_policy_ends_in_plain_words(tmp_path: Path) -> None:
    """Exit 78 and the faults, without a traceback; AXON_DEBUG brings it back."""
    ended = script(tmp_path, FAULTY)
    assert (ended.returncode, ended.stdout) == (78, "")
    assert ended.stderr.startswith("axonkernel: policy: ")
    assert "$.fs.raed" in ended.stderr and "Traceback" not in ended.stderr
    ended = script(tmp_path, FAULTY, debug="1")
    assert ended.returncode == 78 and "Traceback" in ended.stderr and "$.fs.raed" in ended.stderr


def test_other_errors_of_a_script_and_its_own_hook_stay(tmp_path: Path) -> None:
    """Only our errors are told so, and only where nobody else has a hook."""
    declared = "from axonkernel import define_agent\nagent = define_agent(policy={})\n"
    ended = script(tmp_path, declared + "1 / 0\n")
    assert ended.returncode == 1 and "ZeroDivisionError" in ended.stderr
    ended = script(tmp_path, f"import sys\nsys.excepthook = lambda *_: print('mine')\n{FAULTY}")
    assert (ended.returncode, ended.stdout) == (1, "mine\n")


def test_an_imported_agent_leaves_the_hook_alone(tmp_path: Path) -> None:
    """An application that embeds an agent keeps its tracebacks."""
    (tmp_path / "other.py").write_text(FAULTY)
    ended = script(tmp_path, "import other")
    assert ended.returncode == 1 and "Traceback" in ended.stderr


def test_no_policy_is_not_declared() -> None:
    """Unrestricted, and known to be."""
    assert not define_agent().policy.declared


def test_a_tool_name_cannot_be_taken_twice() -> None:
    """Nor can a built-in one be replaced."""
    agent = define_agent()
    with pytest.raises(PolicyError):
        agent.tool("fs.read")(lambda: None)


UNRESTRICTED = "axonkernel: unrestricted: no policy\n"


def test_no_policy_is_told_once(
    ws: Path,
    audit: MemoryAudit,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """One line per process; a policy, or a layer with one, is not told of."""
    monkeypatch.setattr(unrestricted, "_told", False)
    monkeypatch.delenv("AXON_REQUIRE_POLICY", raising=False)
    Kernel({"tools": {}}, cwd=ws, audit=audit).close()
    layer = ("profile", parse({"tools": {}}))
    Kernel(None, cwd=ws, audit=audit, layers=[layer]).close()
    assert capsys.readouterr().err == ""
    Kernel(None, cwd=ws, audit=audit).close()
    define_agent("free").kernel(audit=audit).close()
    assert capsys.readouterr().err == UNRESTRICTED


def test_no_policy_is_refused_where_one_is_required(
    ws: Path, audit: MemoryAudit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AXON_REQUIRE_POLICY holds in application code as well; a policy satisfies it."""
    monkeypatch.setenv("AXON_REQUIRE_POLICY", "1")
    with pytest.raises(PolicyError, match="a policy is required, and none was found"):
        Kernel(None, cwd=ws, audit=audit)
    with pytest.raises(PolicyError, match="a policy is required"):
        anyio.run(define_agent("free").open(audit=audit).__aenter__)
    Kernel({"tools": {}}, cwd=ws, audit=audit).close()
