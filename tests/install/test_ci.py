"""What .ci/run accepts, seen with a stand-in for make that tells how the tests went."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

CI = Path(__file__).resolve().parents[2] / ".ci" / "run"
GOOD = "======== 9000 passed, 2 deselected in 61.20s (0:01:01) ========"


def run(folder: Path, summary: str, *, lint: int = 0, test: int = 0) -> tuple[int, list[str]]:
    """Exit status and output lines of .ci/run when make behaves like this."""
    make = folder / "make"
    make.write_text(
        "#!/bin/sh\n"
        f'[ "$1" = lint ] && exit {lint}\n'
        'echo "required: $AXON_REQUIRE"\n'
        f"echo '{summary}'\n"
        f"exit {test}\n"
    )
    make.chmod(0o755)
    result = subprocess.run(
        [CI],
        env={"PATH": f"{folder}:{os.defpath}", "TMPDIR": str(folder)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
    )
    return result.returncode, result.stdout.splitlines()


def test_a_good_run_passes_and_ends_with_the_summary(tmp_path: Path) -> None:
    """All walls are required, and the last line is pytest's own."""
    status, lines = run(tmp_path, GOOD)
    assert (status, lines[-1]) == (0, GOOD)
    assert "required: box,net,scope,programs" in lines


@pytest.mark.parametrize(
    "summary",
    ["======== no tests ran in 0.01s ========", "======== 0 passed in 0.01s ========", ""],
)
def test_too_few_tests_fail(tmp_path: Path, summary: str) -> None:
    """A run that lost its tests fails, even when make is content."""
    status, lines = run(tmp_path, summary)
    assert status != 0
    assert lines[-1] == summary


def test_skipped_tests_fail(tmp_path: Path) -> None:
    """What is not there to be tried here is a failure."""
    summary = "======== 9000 passed, 1 skipped in 61.20s ========"
    status, lines = run(tmp_path, summary)
    assert (status, lines[-1]) == (1, summary)


def test_failing_tests_fail(tmp_path: Path) -> None:
    """The status of make test is not lost on its way through the log."""
    summary = "======== 1 failed, 9000 passed in 61.20s ========"
    status, lines = run(tmp_path, summary, test=2)
    assert (status, lines[-1]) == (1, summary)


def test_failing_lint_fails(tmp_path: Path) -> None:
    """Good tests do not excuse what lint found; they are run all the same."""
    status, lines = run(tmp_path, GOOD, lint=2)
    assert (status, lines[-1]) == (1, GOOD)
