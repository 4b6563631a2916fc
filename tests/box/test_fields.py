"""Fields that nothing holds are refused; best-effort goes on and calls them unenforced.

A policy that is only partly held must never look as if it were held, on any road to a box.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from axonkernel import IsolationUnavailable, Kernel, PolicyError
from box.boxed import Boxed, Run

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

TOUCH = ["touch", "out/mark"]
CLOSED: dict[str, Any] = {
    "default": "deny",
    "fs": {"write": ["./out"]},
    "shell": {"allow": ["touch"]},
}
UNBUILT: dict[str, dict[str, Any]] = {
    "net.proxy": {"net": {"allow": [], "proxy": "https://45.90.10.1:3128"}},
    "box.noexec": {"box": {"noexec": True}, "fs": {"write": ["/", "./out"]}},
}
fields = pytest.mark.parametrize("field", UNBUILT)


def through_exec(box: Boxed, policy: dict[str, Any], *options: str) -> Run:
    path = box.root / "policy.json"
    path.write_text(json.dumps(policy).replace('"./out"', json.dumps(f"{box.project}/out")))
    return box.exec("--policy", path, *options, command=TOUCH)


def kernel(box: Boxed, policy: dict[str, Any]) -> Kernel:
    return Kernel(policy, cwd=box.project, audit=box.root / "log")


def ran(box: Boxed) -> bool:
    return (box.project / "out/mark").exists()


def states(run: Run) -> dict[str, str]:
    return {row["field"]: row["state"] for row in run.status["posture"]}


@fields
def test_exec_refuses_a_field_that_nothing_holds(box: Boxed, field: str) -> None:
    """125, the field by name with what to do, and nothing ran; without the field it does."""
    run = through_exec(box, {**CLOSED, **UNBUILT[field]})
    assert (run.code, run.out) == (125, b"") and not ran(box)
    line, hint = run.err.splitlines()
    assert field in line and "leave it out" in line and "--best-effort" in hint
    twin = through_exec(box, CLOSED)
    assert twin.code == 0 and ran(box), twin.err


@fields
def test_a_kernel_refuses_a_field_that_nothing_holds(box: Boxed, field: str) -> None:
    """IsolationUnavailable of that field; a kernel without it runs the program."""
    with (
        kernel(box, {**CLOSED, **UNBUILT[field]}) as refusing,
        pytest.raises(IsolationUnavailable) as caught,
    ):
        refusing.process.run_sync(TOUCH)
    assert caught.value.field == field and "leave it out" in caught.value.fix
    assert not ran(box)
    with kernel(box, CLOSED) as twin:
        assert twin.process.run_sync(TOUCH).ok
    assert ran(box)


@fields
def test_best_effort_says_what_is_not_held(box: Boxed, field: str) -> None:
    """It runs; the posture and one line of warning name the field, and no wall fell with it."""
    run = through_exec(box, {**CLOSED, **UNBUILT[field]}, "--best-effort")
    assert run.code == 0 and ran(box), run.err
    assert states(run)[field] == "unenforced"
    lost = f"{field} is not held"
    assert [line for line in run.err.splitlines() if lost in line and "leave it out" in line]
    walls = ("fs", "net", "shell", "env", "seccomp")
    assert {states(run)[wall] for wall in walls} == {"enforced"}


@fields
def test_a_best_effort_kernel_does_not_claim_it(box: Boxed, field: str) -> None:
    """What held a call names the walls, never the field."""
    policy = {**CLOSED, **UNBUILT[field], "isolation": "best-effort"}
    with kernel(box, policy) as going:
        result = going.process.run_sync(TOUCH)
    assert result.ok and ran(box)
    assert field not in result.held_by and {"fs", "net", "shell"} <= set(result.held_by)


OPEN: dict[str, dict[str, Any]] = {
    "fs": {"shell": {"allow": ["touch"]}, "net": {"allow": []}, "env": {}},
    "net": {"fs": {"write": ["./out"]}, "shell": {"allow": ["touch"]}, "env": {}},
    "shell": {"fs": {"write": ["./out"]}, "net": {"allow": []}, "env": {}},
    "env": {"fs": {"write": ["./out"]}, "net": {"allow": []}, "shell": {"allow": ["touch"]}},
}


@pytest.mark.parametrize("block", OPEN)
def test_strict_refuses_an_open_block(box: Boxed, block: str) -> None:
    """A fault of the policy that names the block, through exec and a kernel; nothing ran.
    The same policy under auto runs, and so does the closed one under strict."""
    strict = {**OPEN[block], "isolation": "strict"}
    run = through_exec(box, strict)
    assert run.code == 78 and f"$.{block}: " in run.err and "Traceback" not in run.err, run.err
    with kernel(box, strict) as refusing, pytest.raises(PolicyError) as caught:
        refusing.process.run_sync(TOUCH)
    assert [fault.path for fault in caught.value.faults] == [f"$.{block}"]
    assert not ran(box)
    twin = through_exec(box, OPEN[block])
    assert twin.status["reason"] == "exit"
    assert {"fs", "net", "shell", "env"} - {block} == {
        name for name in OPEN if states(twin)[name] == "enforced"
    }
    assert through_exec(box, {**CLOSED, "isolation": "strict"}).code == 0 and ran(box)


def test_strict_names_every_open_block_at_once(box: Boxed) -> None:
    """Not one fault per attempt."""
    run = through_exec(box, {"limits": {"wall": "1m"}, "isolation": "strict"})
    assert run.code == 78
    assert all(f"$.{block}: " in run.err for block in OPEN)


def test_strict_refuses_a_field_that_nothing_holds(box: Boxed) -> None:
    """No more is promised than under auto."""
    run = through_exec(box, {**CLOSED, **UNBUILT["net.proxy"], "isolation": "strict"})
    assert run.code == 125 and "net.proxy" in run.err and not ran(box)


def test_exec_does_not_claim_the_mediator(box: Boxed) -> None:
    """No mediator judges a boxed command: tools are unenforced there, words and approvals of a
    program are held only by what stands in its place, and what nobody wrote down is not named
    at all."""
    judged = {
        "shell": {"allow": ["touch"], "args": {"touch": {"escalate": ["-d *"]}}},
        "tools": {"mail": "escalate"},
    }
    run = through_exec(box, {**CLOSED, **judged})
    rows = {row["field"]: row for row in run.status["posture"]}
    assert rows["tools"]["state"] == "unenforced"
    assert rows["shell.args"]["state"] == "enforced" and "broker" in rows["shell.args"]["by"]
    assert rows["escalation"]["state"] == "unenforced"
    assert "mediator only" not in {row["state"] for row in rows.values()}
    plain = states(through_exec(box, CLOSED))
    assert not {"shell.args", "shell.hazard", "shell.raw", "escalation", "tools"} & set(plain)


def test_what_opens_nothing_is_told(box: Boxed) -> None:
    """Loopback in net.allow, a budget: each said."""
    policy = {
        **CLOSED,
        "net": {"allow": ["127.0.0.1:443"]},
        "budget": {"usd": 1},
    }
    run = through_exec(box, policy)
    assert run.code == 0 and states(run)["budget"] == "unenforced"
    told = ["net.allow 127.0.0.1:443: a box has a loopback of its own",
            f"{box.project} is not granted: in the box it holds only"]  # fmt: skip
    assert all(text in run.err for text in told), run.err


def test_best_effort_does_not_lower_the_machines_profile(tmp_path: Path) -> None:
    """The switch speaks for the user's own policy; a strict profile goes on to refuse what is
    left open, and without one the same command runs."""
    env = {**os.environ, "HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "c"),
           "XDG_STATE_HOME": str(tmp_path / "s")}  # fmt: skip
    policy = tmp_path / "p.toml"
    policy.write_text('fs.read = ["."]\n')
    argv = [sys.executable, "-m", "axonkernel", "exec", "--best-effort"]
    argv += ["--policy", str(policy), "--", "true"]

    def run() -> subprocess.CompletedProcess[str]:
        return subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True)

    assert run().returncode == 0
    profile = tmp_path / ".config" / "axonkernel" / "profile.toml"
    profile.parent.mkdir(parents=True, exist_ok=True)
    profile.write_text('isolation = "strict"\nfs.read = ["/"]\n')
    refused = run()
    assert refused.returncode == 78 and "strict" in refused.stderr
