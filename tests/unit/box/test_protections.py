"""Policy + host -> what has to be held while the box runs."""

from __future__ import annotations

from typing import Any

import pytest

from axonkernel.box.model import Kept, Watch
from axonkernel.box.names import Absent, Entry
from unit.box.hosts import entries, host, plan


def watch(data: dict[str, Any], **found: Any) -> Watch:
    """The watch of a policy on a host."""
    made = plan({"fs": data}, host(**found)).watch
    assert made is not None
    return made


def kept(data: dict[str, Any], **found: Any) -> list[tuple[str, str, bool]]:
    """(path, how, stub) of what is kept."""
    return [(item.path, item.how, item.stub) for item in watch(data, **found).kept]


def test_denied_names_by_literal_are_held_while_absent_in_write_grants() -> None:
    """What a pattern found is masked and not held; a read grant needs no stub at all."""
    denied = entries("/ws/.env", "/ws/a.key", kind="file")
    fs = {"write": ["."], "deny": [".env", "**/*.key"]}
    assert kept(fs, grants=entries("/ws"), denied=denied, protected=()) == [
        ("/ws/.env", "mask", True),
        ("/ws/a.key", "mask", False),
    ]
    fs = {"read": ["."], "deny": [".env"]}
    assert kept(fs, grants=entries("/ws"), denied=denied[:1]) == [("/ws/.env", "mask", False)]


def test_an_absent_name_comes_with_pins_and_folders() -> None:
    """The way to it is pinned; what is missing of the way is made with it."""
    found = watch(
        {"write": ["."], "deny": ["a/b/.env"]},
        grants=entries("/ws"),
        absent=(Absent("/ws/a/b/.env", ("/ws/a/b",)),),
    )
    assert found.kept == (
        Kept("/ws/a", "pin", "", False, True, 0o755),
        Kept("/ws/a/b", "pin", "", True, True, 0o755),
        Kept("/ws/a/b/.env", "mask", "", True, False, 0, ""),
    )


def test_protected_names_are_kept_with_their_pins() -> None:
    """What git runs programs by is held also when the host removes it, others are not."""
    names = (Entry("/ws/.git/hooks", "dir"), Entry("/ws/.vscode", "dir"))
    assert kept({"write": ["."]}, grants=entries("/ws"), protected=names) == [
        ("/ws/.git", "pin", False),
        ("/ws/.vscode", "read-only", False),
        ("/ws/.git/hooks", "read-only", True),
    ]


@pytest.mark.parametrize(
    ("entry", "how", "source"),
    [
        (Entry("/ws/real", "file", "/ws/.bashrc"), "read-only", "/ws/real"),
        (Entry("/far/rc", "file", "/ws/.bashrc"), "mask", ""),
        (Entry("/ws/none", "missing", "/ws/.bashrc"), "mask", ""),
    ],
    ids=["inside", "outside", "dangling"],
)
def test_a_protected_link_is_kept_itself(entry: Entry, how: str, source: str) -> None:
    """It shows what it leads to where the box has that, and nothing where not."""
    found = watch({"write": ["."]}, grants=entries("/ws"), protected=(entry,)).kept
    (link,) = [item for item in found if item.path == "/ws/.bashrc"]
    assert (link.how, link.source) == (how, source)


def test_a_mask_wins_over_a_protection_and_a_pin() -> None:
    """One name is kept in one way, the strictest."""
    found = kept(
        {"write": ["."], "deny": [".git"]},
        grants=entries("/ws"),
        denied=entries("/ws/.git"),
        protected=entries("/ws/.git/hooks"),
    )
    assert found[0] == ("/ws/.git", "mask", True)


def test_a_read_grant_inside_a_write_grant_is_kept() -> None:
    """The host may replace it, and it stays read-only."""
    fs = {"write": ["."], "read": ["vendor"]}
    found = kept(fs, grants=entries("/ws", "/ws/vendor"))
    assert found == [("/ws/vendor", "read-only", False)]


def test_no_keeper_where_nothing_is_to_be_kept() -> None:
    """No fs, or a plain grant without a network wall; with one, host sockets may come."""
    assert plan({"net": {"allow": []}}, host()).watch is None
    assert plan({"fs": {"write": ["."]}}, host(grants=entries("/ws"))).watch is None
    with_net: dict[str, Any] = {"fs": {"read": ["."]}, "net": {"allow": []}}
    walled = plan(with_net, host(grants=entries("/ws"))).watch
    assert walled is not None and walled.sockets and not walled.kept
    with_net["net"]["unix"] = "none"
    assert plan(with_net, host(grants=entries("/ws"))).watch is None
    system = {"fs": {"read": ["/usr/share", "/"]}, "net": {"allow": []}}
    assert plan(system, host(grants=entries("/usr/share", "/"))).watch is None
