"""Skips are never silent: what is missing is named, and fails where it is required."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from lab import leftovers as comparing
from lab import processes
from lab.processes import LabUnavailable, find_program
from lab.user import OrdinaryUser
from lab.walls import Walls

TESTS = Path(__file__).parents[1]
LAB = sorted(Path(__file__).parent.glob("test_*.py"))
SAMPLE = """
import pytest

@pytest.mark.requires("root")
def test_needs_root():
    assert True

@pytest.mark.root
def test_marked_root():
    assert True

def test_lab(lab):
    assert True

def test_needs_nothing():
    assert True
"""


@pytest.fixture
def inner(ordinary_user: OrdinaryUser, tmp_path: Path) -> OrdinaryUser:
    """A user without root, with a small test suite under our conftest in its home."""
    for name, text in {
        "test_sample.py": SAMPLE,
        "conftest.py": (TESTS / "conftest.py").read_text(),
        "pytest.ini": "[pytest]\naddopts = --import-mode=importlib\n"
        f"pythonpath = {shlex.quote(str(TESTS))}\n",
    }.items():
        (ordinary_user.home / name).write_text(text)
        (ordinary_user.home / name).chmod(0o644)
    return ordinary_user


def pytest_run(user: OrdinaryUser, *options: str, require: str = "") -> tuple[int, str]:
    """Exit code and output of the user's test suite."""
    argv = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options]
    done = user.run(argv, env={"AXON_REQUIRE": require, "PYTHONDONTWRITEBYTECODE": "1"})
    return done.returncode, done.stdout + done.stderr


def test_missing_walls_skip_with_a_reason(inner: OrdinaryUser) -> None:
    """Without root: skipped by marker, alias and fixture alike, and counted by reason."""
    code, output = pytest_run(inner)
    assert code == 0
    assert "1 passed, 3 skipped" in output
    assert "skips by reason: 2 x root: not root (run the tests with sudo); 1 x lab: " in output


def test_required_walls_fail(inner: OrdinaryUser) -> None:
    """AXON_REQUIRE=root,lab: the same tests fail, with the same reasons."""
    code, output = pytest_run(inner, require="root, lab")
    assert code == 1
    assert "1 passed, 3 errors" in output or "3 failed, 1 passed" in output
    assert "root is required here (AXON_REQUIRE): not root" in output


def test_unknown_walls_are_usage_errors(inner: OrdinaryUser) -> None:
    """A misspelt name in AXON_REQUIRE stops the run instead of requiring nothing."""
    code, output = pytest_run(inner, require="roof")
    assert code == 4
    assert "unknown ['roof']" in output


def test_walls_can_be_selected(inner: OrdinaryUser) -> None:
    """-m root selects the tests that require root, however they say it."""
    _, output = pytest_run(inner, "-m", "root")
    assert "2 skipped, 2 deselected" in output


def test_probes_run_once() -> None:
    """A wall is probed the first time it is asked for, and its answer kept."""
    runs = []

    def probe() -> None:
        runs.append(1)
        raise LabUnavailable("not here (apt-get install it)")

    walls = Walls({"box": probe})
    assert walls.missing("box") == walls.missing("box") == "not here (apt-get install it)"
    assert runs == [1]


def test_a_missing_program_names_its_package() -> None:
    """What is not installed is said together with the command that installs it."""
    with pytest.raises(LabUnavailable, match=r"apt-get install some-package"):
        find_program("axon-no-such-program", "some-package")
    assert find_program("sh", "dash").endswith("/sh")


def test_leftovers_on_this_machine_are_seen(tmp_path: Path) -> None:
    """A detached process and a named file are reported; gone, they are not."""
    before = comparing.on_host()
    named = Path("/dev/shm/left-by-axon-test")
    with comparing.adopting():
        subprocess.run(["sh", "-c", "setsid sleep 93 & "], check=True)
        named.touch()
        try:
            found = comparing.left_over(before, comparing.on_host, settle_s=0.2)
        finally:
            named.unlink()
            for pid in processes.descendants(os.getpid()):
                if "sleep\x0093" in Path(f"/proc/{pid}/cmdline").read_text():
                    processes.kill(pid)
        assert [line.partition(":")[0] for line in found] == ["processes", "files"]
        assert comparing.left_over(before, comparing.on_host) == []


def test_a_bench_beside_the_tests_is_no_leftover() -> None:
    """Its folder comes and goes while tests run; that of a demo counts."""
    before = comparing.on_host()
    with (
        tempfile.TemporaryDirectory(prefix="axonkernel-bench-", dir="/dev/shm"),
        tempfile.TemporaryDirectory(prefix="axonkernel-demo-", dir="/dev/shm") as seen,
    ):
        assert comparing.left_over(before, comparing.on_host, settle_s=0) == [f"files: {seen}"]


def test_the_tests_of_ordinary_users_require_one() -> None:
    """Each test of the lab that runs the checkout as an ordinary user says so."""
    listed = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-m", "user", TESTS / "lab"],
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout
    required = {line.partition("::")[2].partition("[")[0] for line in listed.splitlines()}
    named = re.findall(r"def (test_an_ordinary_user\w*)", "".join(map(Path.read_text, LAB)))
    assert named and set(named) <= required
