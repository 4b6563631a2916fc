"""What is said to be true of each field; never more than the plan holds."""

from __future__ import annotations

from typing import Any

import pytest

from axonkernel.box import posture
from axonkernel.box.model import PostureField
from axonkernel.policy.parse import parse
from unit.box.hosts import entries, host, plan


def rows(
    data: dict[str, Any], unenforced: tuple[str, ...] = (), *, mediated: bool = True
) -> dict[str, PostureField]:
    policy = parse(data, base="/ws", home="/home/ann", source="test").closed()
    built = plan(data, host(grants=entries("/ws")))
    found = posture.boxed(policy, built, unenforced, mediated=mediated)
    assert len({row.field for row in found}) == len(found)
    return {row.field: row for row in found}


def test_everything_declared_and_walled() -> None:
    """A closed policy: each field enforced, by what."""
    found = rows(
        {
            "default": "deny",
            "fs": {"read": ["."]},
            "shell": {"allow": ["uname"]},
            "limits": {"memory": "1G", "cpu": "50%", "pids": 9, "wall": "1m", "disk": "1M"},
        }
    )
    enforced = {name for name, row in found.items() if row.state == "enforced"}
    assert enforced == {
        "fs", "net", "shell", "env", "seccomp", "release", "user", "limits.memory", "limits.cpu",
        "limits.pids", "limits.wall", "limits.disk",
    }  # fmt: skip
    assert all(row.by for row in found.values() if row.state == "enforced")
    others = {row.state for name, row in found.items() if name not in enforced}
    assert others == {"mediator only"}


def test_nothing_declared_is_open() -> None:
    """No claim about a block that is absent; the common walls are still there."""
    found = rows({"env": {}})
    opened = {name for name, row in found.items() if row.state == "open"}
    assert opened == {"fs", "net", "shell", "tools", "limits"}
    assert found["seccomp"].state == "enforced"
    assert "plant files" in found["fs"].note


@pytest.mark.parametrize(
    ("shell", "expected"),
    [
        ({"allow": ["git"]}, {"shell.hazard", "shell.raw"}),
        ({"allow": ["git"], "raw": True}, {"shell.hazard"}),
        (
            {"allow": ["git"], "args": {"git": {"deny": ["push"]}}},
            {"shell.args", "shell.hazard", "shell.raw"},
        ),
        (
            {"allow": ["git"], "args": {"git": {"escalate": ["push"]}}},
            {"shell.args", "shell.hazard", "shell.raw", "escalation"},
        ),
    ],
    ids=str,
)
def test_what_the_mediator_alone_holds(shell: dict[str, Any], expected: set[str]) -> None:
    """Until a program is brokered, words and approvals are politeness inside the box."""
    found = rows({"default": "deny", "shell": shell})
    named = {name for name, row in found.items() if row.state == "mediator only"}
    assert named - {"tools"} == expected


@pytest.mark.parametrize(
    "tools",
    [
        {"a": "escalate"},
        {"a": {"b": {"c": "escalate"}}},
        {"a": {"escalate": ["x*"]}},
    ],
    ids=str,
)
def test_escalating_tools_are_mediator_only(tools: dict[str, Any]) -> None:
    """At any depth of the tools map; without one there is no such row."""
    assert rows({"tools": tools})["escalation"].state == "mediator only"
    assert "escalation" not in rows({"tools": {"a": True}})


def test_nobody_judges_a_command_of_exec() -> None:
    """What only the mediator holds is unenforced there, and what nobody wrote is not named."""
    written = {
        "shell": {"allow": ["git"], "args": {"git": {"escalate": ["push"]}}},
        "tools": {"mail": "escalate"},
        "limits": {"output": "1M"},
    }
    found = rows({"default": "deny", **written}, mediated=False)
    states = {name: found[name].state for name in ("shell.args", "escalation", "tools",
                                                   "limits.output")}  # fmt: skip
    assert set(states.values()) == {"unenforced"}, states
    assert "mediator only" not in {row.state for row in found.values()}
    assert found["shell"].state == "enforced"
    closed = rows({"default": "deny", "shell": {"allow": ["git"]}}, mediated=False)
    assert not {"shell.hazard", "shell.raw", "tools"} & set(closed)
    assert {"shell.hazard", "shell.raw", "tools"} <= set(rows({"default": "deny", "shell": {}}))


def test_a_budget_is_counted_by_nobody() -> None:
    """It is named, and not as a wall; without one there is no such row."""
    for mediated in (True, False):
        found = rows({"budget": {"usd": 2}}, mediated=mediated)
        assert (found["budget"].state, found["budget"].by) == ("unenforced", "")
    assert "budget" not in rows({"env": {}})


def test_a_field_without_a_row_of_its_own_gets_one() -> None:
    """What best-effort goes without is never left out of the posture."""
    found = rows({"box": {"noexec": True}}, ("box.noexec",))
    assert found["box.noexec"] == PostureField("box.noexec", "unenforced")
    assert found["seccomp"].state == "enforced"


def test_sockets_in_granted_folders_are_told() -> None:
    """They are masked, later ones after a moment; with open files they are in reach."""
    closed = {"net": {"allow": []}, "fs": {"read": ["."]}}
    assert "masked once it is there" in rows(closed)["net"].note
    assert "can be reached" in rows({"net": {"allow": []}})["net"].note
    assert rows({**closed, "net": {"allow": [], "unix": "none"}})["net"].note == ""
    assert rows({"default": "deny"})["net"].note == ""


def test_what_a_machine_lacks_is_unenforced() -> None:
    """Best-effort: the field named, without a mechanism; the others are not touched."""
    found = rows({"fs": {"read": ["."]}, "limits": {"memory": "1G"}}, ("limits.memory",))
    assert (found["limits.memory"].state, found["limits.memory"].by) == ("unenforced", "")
    assert found["fs"].state == "enforced"


def test_notes_tell_what_an_open_neighbour_costs() -> None:
    """A program wall beside an open file system, a write grant of everything, names."""
    assert "plant files" in rows({"shell": {"allow": ["uname"]}})["shell"].note
    assert "write covers /" in rows({"fs": {"write": ["/"]}})["fs"].note
    assert rows({"net": {"allow": ["api.test:443"]}})["net"].note
    assert rows({"net": {"allow": []}})["net"].by == "network namespace without a link"
    assert "nftables" in rows({"net": {"allow": ["9.9.9.9:1"]}})["net"].by


def test_the_mediator_alone() -> None:
    """Outside a box every declared block is the mediator's, and no policy says so."""

    def states(data: dict[str, Any]) -> dict[str, str]:
        policy = parse(data, base="/ws", home="/home/ann", source="test")
        return {row.field: row.state for row in posture.mediated(policy)}

    assert states({}) == {"policy": "unrestricted"}
    found = states({"fs": {"read": ["."]}})
    assert found["fs"] == "mediator only" and found["net"] == "open"


def test_a_veth_link_says_what_the_host_gets() -> None:
    """Its own row with the names to look for; none for pasta, or where nothing is granted."""
    net = {"allow": ["9.9.9.9:443"], "link": "veth"}
    row = rows({"net": net})["net.link"]
    assert row.state == "enforced" and "axonkernel-forward" in row.note and "axonID" in row.note
    for other in ({**net, "link": "pasta"}, {**net, "allow": []}):
        assert "net.link" not in rows({"net": other})


def test_destinations_that_a_person_may_add_are_held_by_the_box() -> None:
    """Unlike what only the mediator asks about."""
    found = rows({"net": {"allow": ["9.9.9.9:443"], "escalate": ["9.9.9.8:443"]}})
    assert found["net.escalate"].state == "enforced" and "escalation" not in found
    assert "net.escalate" not in rows({"net": {"allow": ["9.9.9.9:443"]}})
