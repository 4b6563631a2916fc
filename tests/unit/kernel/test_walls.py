"""Which walls a decision says stand around a call, and which fields the box around holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from axonkernel import Kernel, Request
from axonkernel.box.model import PostureField
from axonkernel.kernel.walls import held_around, needs_confining, walls_of
from axonkernel.policy.model import Policy
from axonkernel.policy.parse import parse
from axonkernel.policy.request import AnyRequest

RUN = Request.process(["/usr/bin/cat"])
BASE = {"fs": {"read": ["/srv"]}, "net": {"allow": []}, "shell": {"allow": ["cat"]}}


def policy(**blocks: Any) -> Policy:
    return parse({**BASE, **blocks}, base="/", home="/home/x")


CASES: list[tuple[AnyRequest, Policy, dict[str, bool], tuple[str, ...]]] = [
    (RUN, policy(), {"boxed": True}, ("box",)),
    (RUN, policy(), {}, ()),
    (RUN, policy(isolation="best-effort"), {}, ("landlock",)),
    (RUN, policy(isolation="best-effort"), {"landlock": False}, ()),
    (RUN, policy(), {"inside": True}, ("box",)),
    (RUN, policy(fs={"read": []}), {"inside": True}, ("box", "landlock")),
    (RUN, policy(limits={"wall": "1s"}), {"inside": True}, ("box",)),
    (Request.shell("cat a"), policy(fs={"read": []}), {"inside": True}, ("box", "landlock")),
    (Request.tool("block.python"), policy(), {"inside": True}, ("box", "landlock")),
    (Request.tool("block.python"), policy(), {"boxed": True}, ("box",)),
    (Request.tool("fs.read"), policy(fs={"read": []}), {"inside": True}, ("box",)),
    (Request.tool("fs.read"), policy(), {"boxed": True}, ()),
    (Request.read("/srv/a"), policy(), {"inside": True}, ("box",)),
]


@pytest.mark.parametrize(("request_", "narrower", "facts", "below"), CASES)
def test_walls(
    request_: AnyRequest, narrower: Policy, facts: dict[str, bool], below: tuple[str, ...]
) -> None:
    """The mediator always, and below it what there is for this kind of call, here."""
    where = {"inside": False, "boxed": False, "landlock": True, **facts}
    assert walls_of(request_, narrower, policy(), **where) == ("mediator", *below)


def test_a_brokered_program_has_the_broker() -> None:
    """By its file; a line that names it goes to a shell of the agent's box instead."""
    run = Request.process(["git"])
    known = run.__class__(run.argv, resolved="/usr/bin/git")
    where = {"inside": True, "boxed": False, "landlock": True, "brokered": ("/usr/bin/git",)}
    assert walls_of(known, policy(), policy(), **where) == ("mediator", "broker", "box")
    assert walls_of(RUN, policy(), policy(), **where) == ("mediator", "box")


def test_the_box_around_holds_what_was_not_narrowed() -> None:
    """Of a block that is narrower for the call, not all; of the rest, all that it enforces."""
    rows = [
        PostureField(name, state)  # type: ignore[arg-type]
        for name, state in (
            ("fs", "enforced"),
            ("net", "enforced"),
            ("shell", "enforced"),
            ("shell.args", "mediator only"),
            ("limits.memory", "enforced"),
            ("seccomp", "enforced"),
        )
    ]
    same = held_around(policy(), policy(), rows)
    assert same == ("fs", "net", "shell", "limits.memory", "seccomp")
    narrower = policy(fs={"read": []}, limits={"memory": "1M"})
    assert held_around(narrower, policy(), rows) == ("net", "shell", "seccomp")
    assert needs_confining(narrower, policy(), inside=True)
    assert not needs_confining(policy(), policy(), inside=True)


def test_check_and_explain_say_the_walls(tmp_path: Path) -> None:
    """Of a kernel in an ordinary process: tools have the mediator only; a rule is the same
    rule with or without them."""
    with Kernel({"tools": {"a": True}}, cwd=tmp_path, audit=tmp_path / "log") as kernel:
        decision = kernel.check(Request.tool("a"))
        assert decision.walls == ("mediator",)
        assert decision == kernel.decide(Request.tool("a"))
        assert kernel.explain(Request.tool("a")).as_dict()["walls"] == ["mediator"]
        assert kernel.check(Request.process(["true"], cwd=os.sep)).walls == ("mediator",)


def test_a_part_of_the_network_takes_the_broker() -> None:
    """All of it, or none, is held where the program stands; so it is for a block."""
    base = policy(net={"allow": ["9.9.9.9:443", "9.9.9.8:443"]})
    part, none = policy(net={"allow": ["9.9.9.9:443"]}), policy(net={"allow": []})
    where = {"inside": True, "boxed": False, "landlock": True}
    for request in (RUN, Request.shell("cat a")):
        assert walls_of(request, part, base, **where) == ("mediator", "broker", "box")
        assert walls_of(request, none, base, **where) == ("mediator", "box", "landlock")
        assert walls_of(request, base, base, **where) == ("mediator", "box")
    block = Request.tool("block.python")
    assert walls_of(block, part, base, **where) == ("mediator", "box", "landlock")
