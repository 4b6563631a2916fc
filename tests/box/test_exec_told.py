"""What ``exec`` says before its command runs."""

from __future__ import annotations

import pytest

from box.boxed import Boxed

pytestmark = pytest.mark.box


def test_a_file_that_is_not_granted_is_named_before_the_command_runs(box: Boxed) -> None:
    """With the grant that brings it; also from a kept plan; granted, nothing is said."""
    (box.project / "job.py").write_text("print('ran')")
    for _ in range(2):
        run = box.exec("--read", "./out", command=["python3", "job.py"])
        assert run.code == 2 and "job.py is not granted; add --read job.py" in run.err
    run = box.exec("--read", "./out", "--read", "job.py", command=["python3", "job.py"])
    assert run.out == b"ran\n" and "job.py is not granted" not in run.err


def test_a_grant_that_does_not_exist_keeps_no_box_from_starting(box: Boxed) -> None:
    """The working directory is then HOME, which the box has."""
    run = box.exec("--read", "./missing", command=["sh", "-c", '[ "$PWD" = "$HOME" ]'])
    assert run.code == 0, run.err
    assert "missing does not exist; skipped" in run.err


def test_what_exec_does_not_hold_is_told_even_quietly(box: Boxed) -> None:
    """limits.output is the mediator's: the command writes more, and nobody was left to guess."""
    run = box.exec("--limit", "output=1", "--quiet", command=["echo", "more"])
    assert run.out == b"more\n" and "limits.output caps what a call" in run.err
    assert box.exec("--quiet", command=["echo", "more"]).err == ""
    assert "is not granted" in box.exec(command=["echo", "more"]).err


def test_a_policy_with_faults_is_told_to_the_descriptor_too(box: Boxed) -> None:
    """The line of --json-status is written where nothing ran as well."""
    run = box.exec("--limit", "wall=never", command=["true"])
    assert run.code == 78 and (run.status["exit"], run.status["reason"]) == (78, "policy")
