"""What ``axonkernel exec`` leaves in the audit log."""

from __future__ import annotations

import json
from typing import Any

import pytest

from axonkernel.audit.verify import verify
from box.boxed import Boxed

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

TOUCH = ["/usr/bin/touch", "out/ran"]


def records(box: Boxed) -> list[dict[str, Any]]:
    path = box.root / "state/axonkernel/audit.jsonl"
    assert verify(path) == ()
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_every_box_has_its_start_and_end(box: Boxed) -> None:
    """The command and the posture before it runs; the exit code, the reason and what it used
    after, chained to what was there."""
    assert box.exec("--write", "./out", command=TOUCH).code == 0
    assert box.exec("--read", ".", command=["/bin/sh", "-c", "exit 7"]).code == 7
    first, ended, second, failed = records(box)
    assert [each["kind"] for each in (first, ended, second, failed)] == ["box.start", "box.end"] * 2
    assert first["command"] == TOUCH and ["fs", "enforced"] in [r[:2] for r in first["posture"]]
    assert (ended["result"]["exit_code"], ended["result"]["reason"]) == (0, "exit")
    assert failed["result"]["exit_code"] == 7 and failed["result"]["cpu_s"] > 0


def test_without_a_log_nothing_runs(box: Boxed) -> None:
    """A state folder that cannot be made ends the command before its box, with 74."""
    (box.root / "blocked").write_text("")
    env = {"XDG_STATE_HOME": str(box.root / "blocked")}
    run = box.exec("--write", "./out", command=TOUCH, env=env)
    assert run.code == 74 and "audit log" in run.err
    assert not (box.project / "out/ran").exists()
    assert box.exec("--write", "./out", command=TOUCH).code == 0
    assert (box.project / "out/ran").exists()
