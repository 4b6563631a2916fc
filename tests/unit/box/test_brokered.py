"""Which programs a box asks for and does not hold, and what lies at their names."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from axonkernel.box import shim
from axonkernel.box.brokered import SOCKET, asks, brokered_files, with_broker
from axonkernel.box.find import Program
from axonkernel.box.host import Ask, brokered_programs
from axonkernel.box.model import PostureField
from axonkernel.box.posture import boxed
from axonkernel.broker.wire import BROKER_SOCKET
from axonkernel.policy.parse import parse
from unit.box.hosts import entries, host, kinds, plan

GIT = Program("git", (), "/usr/bin/git")
VI = Program("vi", (("/usr/bin/vi", "vim"),), "/usr/bin/vim")
SHIM = shim.path()
JUDGED = {"default": "deny", "shell": {"allow": ["git"], "args": {"git": {"deny": ["push"]}}}}


def names(shell: dict[str, Any], ask: Ask, folder: Path, **blocks: Any) -> list[str]:
    """The brokered programs of a policy, of those that lie in ``folder``."""
    data = {"default": "deny", "shell": shell, **blocks}
    policy = parse(data, base=str(folder), home="/home/ann", source="test").closed()
    return [each.name for each in brokered_programs(policy, ask, {"PATH": str(folder / "bin")})]


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    """A folder bin/ with tool, other and a shell."""
    (tmp_path / "bin").mkdir()
    for name in ("tool", "other", "bash", "python3", "make", "env"):
        (tmp_path / "bin" / name).write_text("#!/none\n")
        (tmp_path / "bin" / name).chmod(0o755)
    return tmp_path


def test_what_has_rules_about_words_is_brokered(programs: Path) -> None:
    """By name, pattern or path; if it is allowed, not denied, and some rule is there."""
    rule = {"deny": ["x*"]}
    path = str(programs / "bin/tool")
    agent = Ask("agent", "/")
    assert names({"allow": ["tool", "other"], "args": {"tool": rule}}, agent, programs) == ["tool"]
    assert names({"allow": True, "args": {"to*": {"escalate": ["x"]}}}, agent, programs) == ["tool"]
    assert names({"allow": [path], "args": {path: rule}}, agent, programs) == [path]
    assert names({"allow": ["other"], "args": {"tool": rule}}, agent, programs) == []
    denied = {"allow": True, "deny": ["tool"], "args": {"tool": rule}}
    assert names(denied, agent, programs) == []
    assert names({"allow": ["tool"], "args": {"tool": {}}}, agent, programs) == []
    assert names({"allow": ["tool"], "args": {"tool": {"allow": []}}}, agent, programs) == ["tool"]


def test_what_the_box_itself_needs_is_in_it(programs: Path) -> None:
    """The agent's interpreter, the shell that is the command; nothing else of the kind."""
    rule = {"deny": ["x"]}
    shell = {"allow": ["python3", "tool"], "args": {"python3": rule, "tool": rule}}
    tool = str(programs / "bin/tool")
    assert names(shell, Ask("exec", "/", "python3"), programs) == ["tool"]
    assert names(shell, Ask("exec", "/", "tool"), programs) == ["python3", "tool"]
    assert names(shell, Ask("agent", "/", sys.executable, (tool,)), programs) == ["python3"]


def test_what_starts_others_stays_beside_them(programs: Path) -> None:
    """A shell, make or env alone in a box would have nothing to start."""
    allow = ["bash", "make", "env", "tool"]
    args = {name: {"deny": ["x"]} for name in allow}
    assert names({"allow": allow, "args": args}, Ask("agent", "/"), programs) == ["tool"]


def test_where_it_cannot_be_held_it_is_not_brokered(programs: Path) -> None:
    """No unix sockets to ask by, a program the agent may write, the box of one judged call."""
    shell = {"allow": ["tool"], "args": {"tool": {"deny": ["x"]}}}
    agent = Ask("agent", "/")
    assert names(shell, agent, programs, net={"allow": [], "unix": "none"}) == []
    assert names(shell, agent, programs, fs={"write": [str(programs / "bin")]}) == []
    assert names(shell, Ask("call", "/"), programs) == []
    assert names(shell, agent, programs, fs={"write": [str(programs / "out")]}) == ["tool"]


def test_the_shim_lies_at_every_name(tmp_path: Path) -> None:
    """At the real file, links lead there, also over what a grant brings; the socket beside."""
    found = plan(JUDGED, host(brokered=(GIT, VI), shim=SHIM, grants=entries("/usr/bin/git")))
    there = {mount.dest: mount for mount in found.mounts}
    assert there["/usr/bin/git"].source == there["/usr/bin/vim"].source == SHIM
    assert (there["/usr/bin/vi"].kind, there["/usr/bin/vi"].source) == ("symlink", "vim")
    assert asks(found) and brokered_files(found) == ("/usr/bin/git", "/usr/bin/vim")
    place = {m.dest: m.source for m in with_broker(found, str(tmp_path)).mounts}[SOCKET]
    assert place == str(tmp_path) and SOCKET == BROKER_SOCKET
    assert not asks(plan(JUDGED, host()))


@pytest.mark.parametrize(
    ("blocks", "masked"),
    [
        ({}, False),
        ({"fs": {"read": ["/usr"]}}, True),
        ({"fs": {"read": ["/"]}}, True),
    ],
    ids=["closed", "granted", "the host's tree"],
)
def test_what_only_they_need_is_closed(blocks: dict[str, Any], masked: bool) -> None:
    """git-core holds a whole git: where a grant brings it, nothing of it can be opened."""
    grants = entries(*blocks.get("fs", {}).get("read", ()))
    machine = host(brokered=(GIT,), brokered_folders=("/usr/lib/git-core",), shim=SHIM,
                   grants=grants)  # fmt: skip
    found = kinds(plan({**JUDGED, **blocks}, machine).mounts)
    assert (found.get("/usr/lib/git-core") == "mask-dir") is masked


def rows(data: dict[str, Any], *, mediated: bool = True, **more: Any) -> dict[str, PostureField]:
    policy = parse(data, base="/ws", home="/home/ann", source="test").closed()
    found = boxed(policy, plan(data, host()), (), mediated=mediated, **more)
    return {row.field: row for row in found}


@pytest.mark.parametrize("mediated", [True, False])
def test_the_posture_says_broker_where_it_holds(mediated: bool) -> None:
    """Words and approvals of programs are enforced by it, under exec too; tools and the words
    of what lies in the box are not, and are named."""
    asking = {"default": "deny", "shell": {"allow": ["git", "sh"], "args": {
        "git": {"escalate": ["push"]}, "sh": {"escalate": ["x"]}}}}  # fmt: skip
    other = "mediator only" if mediated else "unenforced"
    found = rows(asking, mediated=mediated, brokered=(GIT,))
    assert {(found[f].state, found[f].by) for f in ("shell.args", "escalation")} == {
        ("enforced", "broker")
    }
    assert found["shell.hazard"].state == other and "for git" in found["shell.hazard"].note
    found = rows(asking, mediated=mediated, brokered=(GIT,), inside=("sh",))
    for field in ("shell.args", "escalation"):
        assert found[field].state == other
        assert found[field].note == "held by the broker for git, not for sh"
    found = rows({**asking, "tools": {"a": "escalate"}}, mediated=mediated, brokered=(GIT,))
    assert found["escalation"].state == other and "not for tools" in found["escalation"].note
    assert rows(asking, mediated=mediated)["shell.args"].state == other


def test_the_shim_and_the_gate_are_there() -> None:
    """One without the other would run programs whose parts nobody judges."""
    assert os.access(shim.packs(), os.X_OK) and os.access(SHIM, os.X_OK)
