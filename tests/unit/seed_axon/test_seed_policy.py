"""What the page "Kernel & Policy" says, sentence by sentence: what a policy is.

Each docstring starts with the words of the sentence it is about; the sentences about OS
confinement are in ``tests/box/test_seed_axon.py``.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest

from axonkernel import Kernel, PolicyDenied, PolicyError, Request, WritePath, define_agent
from axonkernel.config import load
from axonkernel.policy.parse import parse
from unit.sample import SAMPLE
from unit.seed_axon.world import Make


def test_the_sample_is_a_policy() -> None:
    """Seed: "export default defineAgent": the sample has no fault and says what it seems to say."""
    policy = parse(SAMPLE, base="/project", home="/home/u")
    assert policy.fs and set(policy.fs.read) == {"/project/src", "/project/package.json"}
    assert policy.fs.write == ("/project/output",)
    assert policy.net and (policy.net.allow, policy.net.dns) == (
        ("api.github.com:443",), "allowlist")  # fmt: skip
    assert policy.shell and policy.shell.allow is not True
    assert set(policy.shell.allow) == {"git", "bun"}
    assert (policy.shell.raw, policy.shell.spawn) == (False, 0)
    limits = policy.limits
    assert limits and (limits.memory_bytes, limits.cpu_millicores, limits.wall_s) == (
        2 << 30, 1000, 1800.0)  # fmt: skip


@pytest.mark.parametrize(
    ("request_", "verdict"),
    [
        (Request.process(["git", "status"]), "allow"),
        (Request.process(["git", "push", "--force"]), "deny"),
        (Request.process(["git", "push", "origin", "x", "--force-with-lease"]), "deny"),
        (Request.process(["git", "log", "push", "--force"]), "allow"),
        (Request.process(["bun", "run", "x.ts"]), "allow"),
        (Request.process(["curl", "https://example.org"]), "deny"),
        (Request.process(["git", "status"], spawn=True), "deny"),
        (Request.shell("git status && git log"), "deny"),
        (Request.tool("fs.read", {"path": "src/a.txt"}), "allow"),
        (Request.tool("fs.read", {"path": "secret.txt"}), "deny"),
        (Request.tool("fs.remove", {"path": "output/x"}), "deny"),
        (Request.tool("fs.write", {"path": "output/x", "text": ""}), "escalate"),
        (Request.tool("anything.else"), "escalate"),
        (Request.connect("api.github.com:443"), "allow"),
        (Request.connect("api.github.com:80"), "deny"),
        (Request.connect("example.org:443"), "deny"),
        (Request.read("src/a.txt"), "allow"),
        (Request.write("src/a.txt"), "deny"),
        (Request.write("output/x"), "allow"),
        (Request.env("GITHUB_TOKEN"), "allow"),
        (Request.env("AWS_SECRET_ACCESS_KEY"), "deny"),
    ],
    ids=repr,
)
def test_the_sample_decides_as_it_reads(make: Make, request_: Any, verdict: str) -> None:
    """Seed: "Policy is what you tell the kernel to allow": the sample's own lines."""
    assert make(SAMPLE).check(request_).verdict == verdict


def test_a_violation_is_rejected_before_the_function_runs(make: Make, ws: Path) -> None:
    """Seed: "rejected before the function runs": the tool's body never starts."""
    entered: list[str] = []
    agent = define_agent()

    @agent.tool("save")
    def save(path: Annotated[str, WritePath]) -> None:
        entered.append(path)
        Path(path).touch()

    kernel = make({"fs": {"write": ["./output"]}}, tools=agent.tools)
    with pytest.raises(PolicyDenied):
        kernel.call_sync("save", path="src/new")
    assert entered == [] and not (ws / "src" / "new").exists()
    kernel.call_sync("save", path="output/new")
    assert entered == [str(ws / "output" / "new")] and (ws / "output" / "new").exists()


def test_the_agent_gets_an_error_it_can_adapt_to(make: Make, ws: Path) -> None:
    """Seed: "receives a structured error and adapts from there": the code names what to change."""

    async def handler(kernel: Kernel, request: Any) -> str:
        try:
            await kernel.call("fs.write", path="src/report", text="r")
        except PolicyDenied as error:
            assert error.as_dict()["code"] == "fs.write" and error.retryable
            await kernel.call("fs.write", path="output/report", text="r")
        return "adapted"

    kernel = make({"fs": {"read": ["./src"], "write": ["./output"]}}, handler=handler)
    assert kernel.request_sync({}) == "adapted"
    assert (ws / "output" / "report").read_text() == "r"
    assert not (ws / "src" / "report").exists()


def test_no_policy_block_means_unrestricted_access(make: Make, ws: Path) -> None:
    """Seed: "No policy block means unrestricted access": with the user's privileges, and said
    so."""
    kernel = make(None)
    assert kernel.call_sync("fs.read", path=str(ws / "secret.txt")) == "KEY"
    assert kernel.process.run_sync(["cat", "secret.txt"]).text == "KEY"
    assert [row.state for row in kernel.posture()] == ["unrestricted"]
    assert make({"tools": {}}).check(Request.tool("fs.read")).verdict == "deny"


def test_for_anything_deployed_a_policy_can_be_demanded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seed: "For anything deployed or published": what has no explicit rules is refused."""
    assert not load(None, start=str(tmp_path), profiles=()).policy.declared
    monkeypatch.setenv("AXON_REQUIRE_POLICY", "1")
    with pytest.raises(PolicyError, match="a policy is required"):
        load(None, start=str(tmp_path), profiles=())


@pytest.mark.parametrize("block", ["fs", "net", "env", "limits"])
def test_such_a_rule_turns_the_box_on(block: str) -> None:
    """Seed: "turns the OS box on by default": auto, unless isolation is written."""
    policy = parse({block: SAMPLE[block]}, base="/p")
    assert policy.isolation is None and policy.effective_isolation == "auto"
    written = parse({block: SAMPLE[block], "isolation": "none"}, base="/p")
    assert written.effective_isolation == "none"


@pytest.mark.parametrize("block", ["shell", "tools"])
def test_other_rules_do_not(block: str) -> None:
    """Seed: "rather than "none"": what only the mediator holds asks for no box."""
    assert parse({block: SAMPLE[block]}, base="/p").effective_isolation == "none"
