"""A rule for a tool that does not exist is a slip, and stops the agent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from axonkernel import Agent, PolicyError, define_agent
from axonkernel.policy.known import BUILTIN_TOOLS, unknown_builtins, unknown_tools
from axonkernel.policy.lint import lints
from axonkernel.policy.parse import parse
from axonkernel.tools import builtin_tools


def _agent(tools: dict[str, Any], **policy: Any) -> Agent:
    agent = define_agent("a", {"isolation": "none", "tools": tools, **policy}, base="/")

    @agent.tool("notes.append")
    def append(text: str) -> None: ...

    @agent.tool("deep.er.tool")
    def tool() -> None: ...

    return agent


def test_the_list_of_built_in_tools_is_complete() -> None:
    """The policy's list is the registry's, and the blocks."""
    blocks = {f"block.{kind}" for kind in ("bash", "python", "wasm")}
    assert set(BUILTIN_TOOLS) == {tool.name for tool in builtin_tools()} | blocks


@pytest.mark.parametrize(
    "tools",
    [
        {"notes.append": True}, {"notes": True}, {"notes": {"append": True, "*": False}},
        {"*": "escalate"}, {"fs": {"read": True}}, {"fs.*": True}, {"deep": True},
        {"deep.er": {"tool": True}}, {"block.bash": False}, {"http": {"fetch": {"allow": ["x"]}}},
        False, {},
    ],
)  # fmt: skip
def test_rules_for_tools_there_are(tools: Any, tmp_path: Path) -> None:
    """Names, prefixes and wildcards of registered, built-in and block tools."""
    with _agent(tools).kernel(audit=tmp_path / "log"):
        pass


@pytest.mark.parametrize(
    ("tools", "path", "hint"),
    [
        ({"notes.apend": False}, "$.tools.notes.apend", '"notes.append"'),
        ({"note": False}, "$.tools.note", ""),
        ({"fs": {"raed": True}}, "$.tools.fs.raed", '"fs.read"'),
        ({"notes.append.more": True}, "$.tools.notes.append.more", '"notes.append"'),
        ({"mail.*": True}, '$.tools.mail["*"]', ""),
        ({"Notes.append": True}, "$.tools.Notes.append", '"notes.append"'),
        ({"notes_append": {"deny": ["x"]}}, "$.tools.notes_append", '"notes.append"'),
    ],
)
def test_a_rule_for_no_tool_is_a_fault(
    tools: dict[str, Any], path: str, hint: str, tmp_path: Path
) -> None:
    """The agent does not start; the fault has its place, and the name that was meant."""
    with pytest.raises(PolicyError) as caught:
        _agent(tools).kernel(audit=tmp_path / "log")
    (fault,) = caught.value.faults
    assert fault.path == path
    assert not hint or fault.hint == hint
    assert not (tmp_path / "log").exists()


def test_every_slip_is_told_at_once() -> None:
    """Not one after the other."""
    faults = unknown_tools(parse({"tools": {"a": True, "b.c": False, "fs": True}}), ["d"])
    assert [fault.path for fault in faults] == ["$.tools.a", "$.tools.b.c"]


def test_running_as_a_script_ends_with_the_code_of_a_faulty_policy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """78, and nothing was started."""
    with pytest.raises(SystemExit) as caught:
        _agent({"notes.apend": False}).run()
    assert caught.value.code == 78
    assert "notes.append" in capsys.readouterr().err


def test_tools_of_a_folder_are_not_known_before() -> None:
    """With ``wasm.folders`` any name may be one."""
    policy = parse({"tools": {"jq": True}, "wasm": {"folders": ["/srv/tools"]}})
    assert unknown_tools(policy, ()) == ()


def test_check_remarks_on_slips_in_built_in_groups() -> None:
    """Where the agent's own tools are not known, only ``fs``, ``http`` and ``block`` are."""
    policy = parse({"tools": {"fs": {"raed": True}, "mail.send": True, "fs.read": True}})
    assert [fault.value for fault in unknown_builtins(policy)] == ["fs.raed"]
    (lint,) = [lint for lint in lints(policy) if lint.code == "unknown-tool"]
    assert (lint.path, lint.hint) == ("$.tools.fs.raed", '"fs.read"')
