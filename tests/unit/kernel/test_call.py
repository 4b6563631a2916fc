"""Tool calls: judged first, recorded before they run, and denied without running."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import anyio
import pytest

from axonkernel import Kernel, PolicyDenied, ReadPath, Request, Secret, ToolError, WritePath
from axonkernel.audit.verify import verify
from axonkernel.errors import AuditError
from axonkernel.tools import builtin_tools
from unit.memory import MemoryAudit

Make = Callable[..., Kernel]

FS = {"fs": {"read": ["."], "write": ["./out"], "deny": ["./secret.txt"]}}

#: Every built-in tool that writes, with arguments for a path.
WRITERS: dict[str, dict[str, Any]] = {
    "fs.write": {"text": "x"},
    "fs.edit": {"old": "KEY", "new": "x"},
    "fs.remove": {},
}
READERS: dict[str, dict[str, Any]] = {
    "fs.read": {},
    "fs.list": {},
    "fs.glob": {"pattern": "*"},
    "fs.grep": {"text": "KEY"},
}


def test_an_allowed_call_runs(make: Make, audit: MemoryAudit) -> None:
    """The result comes back, and the decision was recorded."""
    assert make(FS).call_sync("fs.read", path="a.txt") == "text of a"
    assert audit.decisions() == ["allow"]
    assert anyio.run(lambda: make(FS).call("fs.read", path="a.txt")) == "text of a"


def test_a_denied_call_does_not_run(make: Make, audit: MemoryAudit, ws: Path) -> None:
    """The error has code, action and the record's id; nothing was written."""
    with pytest.raises(PolicyDenied) as caught:
        make(FS).call_sync("fs.write", path="a.txt", text="changed")
    denied = caught.value
    action = 'tool fs.write {"path": "a.txt", "text": "changed"}'
    assert (denied.code, denied.action, denied.decision_id) == ("fs.write", action, "r1")
    assert denied.retryable
    assert (ws / "a.txt").read_text() == "text of a"
    assert audit.decisions() == ["deny"]
    assert pickle.loads(pickle.dumps(denied)).as_dict() == denied.as_dict()


def test_a_denial_tells_no_rule(make: Make, ws: Path) -> None:
    """Neither pattern nor grant nor rule is in the text (what the agent sees)."""
    with pytest.raises(PolicyDenied) as caught:
        make(FS).call_sync("fs.read", path="secret.txt")
    for hidden in ("$.", "out", str(ws), "deny["):
        assert hidden not in str(caught.value)


@pytest.mark.parametrize("tool", WRITERS)
@pytest.mark.parametrize("path", ["a.txt", "/etc/hostname", "out/../a.txt", "../x", "link/f"])
def test_every_writing_tool_gets_the_same_answer(
    make: Make, ws: Path, tool: str, path: str
) -> None:
    """One fs policy for all routes: same code and rule as asking about the path."""
    (ws / "link").symlink_to("/etc")
    before = (ws / "a.txt").read_text()
    kernel = make(FS)
    asked = kernel.check(Request.write(path))
    by_tool = kernel.check(Request.tool(tool, {"path": path, **WRITERS[tool]}))
    assert (by_tool.verdict, by_tool.code, by_tool.rule) == ("deny", "fs.write", asked.rule)
    with pytest.raises(PolicyDenied) as caught:
        kernel.call_sync(tool, path=path, **WRITERS[tool])
    assert caught.value.code == "fs.write"
    assert (ws / "a.txt").read_text() == before


@pytest.mark.parametrize("tool", READERS)
@pytest.mark.parametrize("path", ["secret.txt", "/etc", "..", "link"])
def test_every_reading_tool_gets_the_same_answer(
    make: Make, ws: Path, tool: str, path: str
) -> None:
    """A denied path is denied through each tool, links included."""
    (ws / "link").symlink_to("secret.txt")
    with pytest.raises(PolicyDenied) as caught:
        make(FS).call_sync(tool, path=path, **READERS[tool])
    assert caught.value.code == "fs.read"


def test_allowed_writes_through_every_tool(make: Make, ws: Path) -> None:
    """The positive twin: inside the grant each of them works."""
    kernel = make(FS)
    kernel.call_sync("fs.write", path="out/f", text="KEY")
    kernel.call_sync("fs.edit", path="out/f", old="KEY", new="x")
    assert (ws / "out" / "f").read_text() == "x"
    kernel.call_sync("fs.remove", path="out/f")
    assert list((ws / "out").iterdir()) == []


@pytest.mark.parametrize("tool", ["fs.list", "fs.glob", "fs.grep"])
def test_a_masked_file_is_in_no_result(make: Make, ws: Path, tool: str) -> None:
    """Searching shows the readable file and counts the other."""
    (ws / "a.txt").write_text("KEYHOLE")
    found = make(FS).call_sync(tool, **READERS[tool])
    assert "a.txt" in repr(found) and "secret" not in repr(found)
    assert found["hidden"] == 1


def test_the_tool_map_and_the_path_list_both_have_to_agree(make: Make) -> None:
    """``fs.read`` the tool and the path in ``fs.read``."""
    kernel = make({**FS, "tools": {"fs": {"list": True}}})
    assert kernel.call_sync("fs.list")["entries"]
    with pytest.raises(PolicyDenied) as caught:
        kernel.call_sync("fs.read", path="a.txt")
    assert caught.value.code == "tool"


def test_nothing_runs_when_the_log_is_full(make: Make, audit: MemoryAudit, ws: Path) -> None:
    """A decision that cannot be recorded is a denial, for each kind of call."""
    kernel = make(FS)
    audit.broken = True
    with pytest.raises(AuditError):
        kernel.call_sync("fs.write", path="out/f", text="x")
    with pytest.raises(AuditError):
        kernel.process.run_sync(["touch", "out/f"])
    with pytest.raises(AuditError):
        anyio.run(kernel.run_block, "python", "open('out/f', 'w')")
    assert list((ws / "out").iterdir()) == []


def test_the_record_is_there_before_the_tool_runs(make: Make, audit: MemoryAudit) -> None:
    """A tool that looks finds its own decision in the log."""
    tools = builtin_tools()
    seen: list[int] = []
    tools.register("look", lambda: seen.append(len(audit.records)))
    make(tools=tools).call_sync("look")
    assert seen == [1]


def test_an_unknown_tool(make: Make) -> None:
    """Denied like any other where the policy denies it, a tool error where it does not."""
    with pytest.raises(ToolError, match="no tool"):
        make().call_sync("no.such")
    with pytest.raises(PolicyDenied):
        make({"tools": {"fs": True}}).call_sync("no.such")


def test_arguments_that_do_not_fit_are_told_after_the_decision(make: Make) -> None:
    """A denied tool does not tell its signature."""
    with pytest.raises(ToolError, match="unexpected"):
        make(FS).call_sync("fs.read", path="a.txt", nonsense=1)
    with pytest.raises(PolicyDenied):
        make({"tools": {"x": True}}).call_sync("fs.read", nonsense=1)


@pytest.mark.parametrize("path", ["a\0b", "/" + "x/" * 20_000])
def test_malformed_paths_are_denials(make: Make, path: str) -> None:
    """No ValueError leaks from the system."""
    for policy in (None, FS):
        with pytest.raises(PolicyDenied) as caught:
            make(policy).call_sync("fs.read", path=path)
        assert caught.value.code.startswith("request.")


def test_a_failing_tool_is_a_tool_error(make: Make) -> None:
    """Its exception is the cause; async and plain tools alike."""
    tools = builtin_tools()

    def broken() -> None:
        raise KeyError("x")

    async def broken_too() -> None:
        raise KeyError("x")

    tools.register("plain", broken)
    tools.register("async", broken_too)
    kernel = make(tools=tools)
    for name in ("plain", "async"):
        with pytest.raises(ToolError, match="KeyError") as caught:
            kernel.call_sync(name)
        assert isinstance(caught.value.__cause__, KeyError)
        with pytest.raises(ToolError):
            anyio.run(kernel.call, name)


def test_tools_get_the_kernel_the_path_and_the_secret(
    make: Make, audit: MemoryAudit, ws: Path
) -> None:
    """A tool can call others; what it is given is what was judged; no secret is recorded."""
    tools = builtin_tools()

    async def copy(
        kernel: Kernel,
        source: Annotated[str, ReadPath],
        target: Annotated[str, WritePath],
        token: Annotated[str, Secret],
    ) -> str:
        text = await kernel.call("fs.read", path=source)
        await kernel.call("fs.write", path=target, text=text)
        return token

    tools.register("copy", copy)
    kernel = make(FS, tools=tools)
    assert kernel.call_sync("copy", source="a.txt", target="out/b", token="hunter2!") == "hunter2!"
    assert (ws / "out" / "b").read_text() == "text of a"
    assert audit.decisions() == ["allow"] * 3
    assert "hunter2!" not in repr(audit.records)
    with pytest.raises(PolicyDenied):
        kernel.call_sync("copy", source="secret.txt", target="out/b", token="x")


def test_check_decides_and_runs_nothing(make: Make, audit: MemoryAudit, ws: Path) -> None:
    """The verdict of the later call, with nothing done and nothing recorded."""
    kernel = make(FS)
    for path, verdict in (("out/f", "allow"), ("a.txt", "deny")):
        assert kernel.check(Request.write(path)).verdict == verdict
        request = Request.tool("fs.write", {"path": path, "text": "x"})
        assert kernel.check(request).verdict == verdict
    assert audit.records == [] and list((ws / "out").iterdir()) == []


def test_explain_agrees_with_check(make: Make) -> None:
    """What-if and verdict are the same."""
    kernel = make({**FS, "shell": {"allow": ["ls"]}})
    for request in (
        Request.read("a.txt"),
        Request.read("secret.txt"),
        Request.process(["ls"]),
        Request.process(["rm"]),
        Request.tool("fs.read", {"path": "/etc/passwd"}),
        Request.connect("a.test:443"),
    ):
        assert kernel.explain(request).decision == kernel.check(request)


def test_no_policy_is_unrestricted_and_says_so(make: Make, tmp_path: Path) -> None:
    """Everything is allowed, and the posture is not silent about it."""
    kernel = make()
    (tmp_path / "elsewhere").write_text("x")
    assert kernel.call_sync("fs.read", path=str(tmp_path / "elsewhere")) == "x"
    assert [row.state for row in kernel.posture()] == ["unrestricted"]


def test_the_posture_claims_no_more_than_the_mediator(make: Make) -> None:
    """In this process nothing is enforced below it."""
    rows = {row.field: row for row in make({**FS, "isolation": "auto"}).posture()}
    assert rows["fs"].state == "mediator only" and "box" in rows["fs"].note
    assert rows["net"].state == "open"
    assert all(row.state != "enforced" for row in rows.values())


@pytest.mark.parametrize("tool", ["fs.read", "fs.write", "fs.remove"])
def test_the_audit_log_is_out_of_reach(ws: Path, tool: str) -> None:
    """A log inside a grant can neither be read nor changed by what it records."""
    log = ws / "out" / "log"
    kernel = Kernel({**FS, "isolation": "none"}, cwd=ws, audit=log)
    kernel.call_sync("fs.write", path="out/f", text="x")
    with pytest.raises(PolicyDenied):
        kernel.call_sync(tool, path="out/log", **({"text": "x"} if tool == "fs.write" else {}))
    assert verify(log) == ()
    assert kernel.call_sync("fs.list", path="out")["hidden"] == 1
