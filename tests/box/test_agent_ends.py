"""How an agent ends that cannot go on, and what its author sees of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lab.agents import Ended, Project

pytestmark = pytest.mark.box

CLOSED: dict[str, Any] = {"fs": {"write": ["./out"]}}
ASKING: dict[str, Any] = {**CLOSED, "tools": {"mark": "escalate"}}
MARK = """
@agent.tool("mark")
def mark(name: str) -> str:
    open("out/" + name, "w").close()
    return "made"
"""
UNJUDGED = """
@agent.tool("mine.open")
def mine(path: str) -> str:
    return path
"""


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "home")


def both(project: Project) -> tuple[Ended, Ended]:
    """The agent as a script and under ``axonkernel run``."""
    return project.run_agent(), project.axonkernel("run", "--agent", "agent.py")


@pytest.mark.parametrize("form", ["await kernel.call", "kernel.call_sync"])
def test_an_interrupt_at_the_prompt_is_130_and_one_line(project: Project, form: str) -> None:
    """^C ends the agent at once, not when its question runs out; the tool did not run."""
    handler = f"return {form}('mark', name='m')"
    if "await" not in form:  # as a handler that is no coroutine: it waits in a thread
        handler = f"return await anyio.to_thread.run_sync(lambda: {form}('mark', name='m'))"
    policy = {**ASKING, "escalation": {"timeout": "10m"}}
    project.agent(policy, handler, before="import anyio.to_thread\n" + MARK)
    with project.on_terminal("agent.py") as run:
        run.wait_for("[no]: ")
        run.type("\x03")
        ended = run.ended()
    assert ended.code == 130
    assert "axonkernel: interrupted" in ended.err and "Traceback" not in ended.err
    assert not (project.folder / "out" / "m").exists()


@pytest.mark.parametrize(
    ("policy", "before", "said"),
    [
        (CLOSED, UNJUDGED, "fix: path: Annotated[str, ReadPath]"),
        ({**CLOSED, "tools": {"zz": True}}, "", "$.tools.zz: names no tool"),
    ],
)
def test_a_fault_that_only_the_agents_code_shows_is_78(
    project: Project, policy: dict[str, Any], before: str, said: str
) -> None:
    """Under ``run`` the file is loaded in the box alone, and its faults are told as all are."""
    project.agent(policy, "return 1", before=before)
    for ended in both(project):
        assert (ended.code, ended.out) == (78, "")
        assert said in ended.err and "fix: " in ended.err and "Traceback" not in ended.err
    project.agent(CLOSED, "return 1", before=UNJUDGED.replace("path", "word"))
    assert [ended.code for ended in both(project)] == [0, 0]


@pytest.mark.parametrize("isolation", ["full", "none"])
def test_a_traceback_begins_with_the_agents_own_frame(project: Project, isolation: str) -> None:
    """None of the frames that called the handler is shown, in a box or without one."""
    policy = {**CLOSED, "isolation": isolation}
    if isolation == "full":
        policy.pop("isolation")
    project.agent(policy, "json.loads('{')")
    for ended in both(project):
        lines = ended.err.splitlines()
        at = lines.index("Traceback (most recent call last):")
        assert ended.code == 1 and "agent.py" in lines[at + 1]
        assert "json" in ended.err and "kernel.py" not in ended.err


def test_the_whole_traceback_can_be_had(project: Project) -> None:
    """With AXON_DEBUG nothing is left out."""
    policy = {**CLOSED, "env": {"allow": ["AXON_DEBUG"]}}
    project.agent(policy, "raise ValueError('whole')")
    assert "kernel.py" in project.run_agent(env={"AXON_DEBUG": "1"}).err
