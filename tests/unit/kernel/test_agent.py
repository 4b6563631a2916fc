"""define_agent: a policy, tools and a handler, from the file that declares them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import anyio
import pytest

from axonkernel import Agent, Kernel, PolicyDenied, PolicyError, WritePath, define_agent
from tests.unit.kernel.conftest import MemoryAudit


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


def test_no_policy_is_not_declared() -> None:
    """Unrestricted, and known to be."""
    assert not define_agent().policy.declared


def test_a_tool_name_cannot_be_taken_twice() -> None:
    """Nor can a built-in one be replaced."""
    agent = define_agent()
    with pytest.raises(PolicyError):
        agent.tool("fs.read")(lambda: None)
