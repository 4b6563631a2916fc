"""Run by root from an installation that only another user may look into, as with sudo at home."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from axonkernel.box import entering
from box.boxed import PYTHON
from lab.processes import REPOSITORY

pytestmark = [
    pytest.mark.requires("box", "net", "root"),
    pytest.mark.usefixtures("leftovers"),
]

SOMEBODY = 12345
#: Lives on past the moment in which refusals are looked at, then asks for a name.
PROGRAM = """
import socket, sys, time
with socket.socket() as sock: print(sock.connect_ex(("203.0.113.10", 80)))
time.sleep(0.5)
try: socket.gethostbyname("no.test")
except OSError as error: print(type(error).__name__)
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Somebody's, with this package and its bytecode."""
    home = tmp_path / "home"
    shutil.copytree(REPOSITORY / "axonkernel", home / "axonkernel")
    os.chown(home, SOMEBODY, SOMEBODY)
    home.chmod(0o700)
    return home


def test_what_a_box_was_refused_is_told_all_the_same(home: Path, tmp_path: Path) -> None:
    """What is outside of the box keeps its network: addresses and names are refused and told,
    though it may not look into its own installation any more."""
    project = tmp_path / "project"
    project.mkdir()
    kept = {f"XDG_{name}_HOME": str(tmp_path / name) for name in ("CACHE", "STATE", "CONFIG")}
    read, write = os.pipe()
    options = ["--read", ".", "--net", "203.0.113.10:443", "--json-status", str(write)]
    command = ["--", PYTHON, "-ISc", PROGRAM]
    done = subprocess.run(
        [sys.executable, "-m", "axonkernel", "exec", *options, *command],
        env={**os.environ, **kept, "PYTHONPATH": str(home)}, cwd=project, pass_fds=[write],
        capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    os.close(write)
    with open(read) as file:
        status = json.loads(file.read().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["111", "gaierror"]
    told = {(each["address"] or each["name"], each["port"]) for each in status["denials"]}
    assert told == {("203.0.113.10", 80), ("no.test", 0)}


def test_only_what_others_may_read_stays_readable(home: Path, tmp_path: Path) -> None:
    """A file that nobody else may read, or in a folder that they may not enter, does not."""
    for folder in (tmp_path, *tmp_path.parents[:2]):
        folder.chmod(folder.stat().st_mode | 0o055)
    inside, beside = home / "axonkernel" / "errors.py", tmp_path / "errors.py"
    shutil.copy(inside, beside)
    assert entering._stays_readable(str(beside)) and not entering._stays_readable(str(inside))
    os.chown(beside, SOMEBODY, SOMEBODY)
    assert entering._stays_readable(str(beside))
    beside.chmod(0o600)
    assert not entering._stays_readable(str(beside))
