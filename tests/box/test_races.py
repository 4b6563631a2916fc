"""A box that changes names while another with the same grant is being made.

The attacker has everything its grant gives: it exchanges a name that every box protects with
a link to a secret of the host, as fast as it can. What the other box mounts at that name must
be what was looked at, or there is no box.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import NamedTuple

import pytest

from box.boxed import PYTHON, Boxed

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

SECRET = "KEY-host-7e41"
#: A protected name that is not there yet, so that nothing pins it in the attacker's box: made
#: there, then exchanged with a link without end (renameat2, RENAME_EXCHANGE).
FLIP = """
import ctypes, os, sys
name, secret = sys.argv[1:]
if name == ".bashrc":
    open(name, "w").write("own")
else:
    os.makedirs(f"{name}/hooks")
    open(f"{name}/config", "w").write("own")
os.symlink(secret, "link")
libc = ctypes.CDLL(None, use_errno=True)
if libc.renameat2(-100, b"link", -100, name.encode(), 2):
    sys.exit(os.strerror(ctypes.get_errno()))
open("flipping", "w").close()
while True:
    libc.renameat2(-100, b"link", -100, name.encode(), 2)
"""
#: What the other box sees at both names and below them, several times over.
LOOK = """
import sys
for _ in range(20):
    for name in (sys.argv[1], "link"):
        for path in (name, f"{name}/config", f"{name}/hooks/pre-commit"):
            try: print(path, open(path).read())
            except OSError as error: print(path, error.strerror)
print("looked")
"""
#: A file, a folder that is protected whole, a folder in which names are.
NAMES = (".bashrc", ".githooks", ".git")


class Outcome(NamedTuple):
    """How many boxes there were beside the attacker, and how many were refused."""

    made: int
    refused: int


def secret_for(box: Boxed, name: str) -> Path:
    """A secret of the host outside the grant, of the kind that ``name`` is."""
    secret = box.root / "secret"
    if name == ".bashrc":
        secret.write_text(SECRET)
        return secret
    (secret / "hooks").mkdir(parents=True)
    for path in (secret / "config", secret / "hooks/pre-commit"):
        path.write_text(SECRET)
    return secret


def raced(box: Boxed, name: str, times: int) -> Outcome:
    """Start ``times`` boxes beside the attacker; the secret shows in none."""
    made = refused = 0
    attack = [PYTHON, "-ISc", FLIP, name, str(secret_for(box, name))]
    with box.started("--write", ".", command=attack) as process:
        deadline = time.monotonic() + 20
        while not (box.project / "flipping").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        for _ in range(times):
            run = box.exec("--write", ".", command=[PYTHON, "-ISc", LOOK, name])
            assert SECRET not in run.text + run.err
            assert "Traceback" not in run.err, run.err
            if run.code == 125:
                refused += 1
                assert run.out == b"" and run.status.get("reason", "launch") == "launch"
            else:
                made += 1
                assert run.code == 0 and run.text.endswith("looked\n"), run.err
        assert process.poll() is None, process.communicate()
        process.terminate()
        process.wait(20)
    return Outcome(made, refused)


def test_the_secret_is_there_without_a_box(box: Boxed) -> None:
    """The twin: outside, the link that the attacker plants leads to it."""
    for name in (".bashrc", ".git"):
        secret = secret_for(box, name)
        (box.project / "link").symlink_to(secret)
        file = box.project / "link" if secret.is_file() else box.project / "link/config"
        assert file.read_text() == SECRET
        (box.project / "link").unlink()
        if secret.is_file():
            secret.unlink()


@pytest.mark.parametrize("name", NAMES)
def test_an_exchanged_name_never_shows_the_host(box: Boxed, name: str) -> None:
    """Fifteen boxes beside the attacker; with the attacker gone the name is its own file."""
    assert sum(raced(box, name, 15)) == 15
    if (box.project / name).is_symlink():
        (box.project / name).unlink()
        (box.project / "link").rename(box.project / name)
    run = box.exec("--write", ".", command=[PYTHON, "-ISc", LOOK, name])
    assert run.code == 0 and " own\n" in run.text, run.err


#: Exchange a protected file with a link into what bwrap sees of the host, which is at
#: /oldroot while it mounts: to a file that is there, and to one that is not.
INTO_HOST = """
import ctypes, os, sys
open(".bashrc", "w").write("own")
os.symlink("/oldroot" + sys.argv[1], "link")
os.symlink("/oldroot" + sys.argv[2], "absent")
libc = ctypes.CDLL(None)
open("flipping", "w").close()
while True:
    libc.renameat2(-100, b"link", -100, b".bashrc", 2)
    libc.renameat2(-100, b"absent", -100, b".bashrc", 2)
"""


def wrecked(box: Boxed, times: int) -> None:
    """Start boxes beside that attacker: nothing of the host is emptied, made or changed."""
    there, absent = box.root / "there", box.root / "absent"
    there.write_text(SECRET)
    before = there.stat()
    attack = [PYTHON, "-ISc", INTO_HOST, str(there), str(absent)]
    with box.started("--write", ".", command=attack) as process:
        deadline = time.monotonic() + 20
        while not (box.project / "flipping").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        codes = {box.exec("--write", ".", command=["/usr/bin/true"]).code for _ in range(times)}
        assert process.poll() is None and codes <= {0, 125}
        process.terminate()
        process.wait(20)
    after = there.stat()
    assert not absent.exists() and there.read_text() == SECRET
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_nothing_outside_the_grant_is_made_or_emptied(box: Boxed) -> None:
    """bwrap makes the place of a mount where it finds none, through links: none of the
    attacker's is there when it does."""
    wrecked(box, 20)
    names = {path.name for path in box.root.iterdir()}
    assert names == {"project", "home", "state", "there"} | ({"config"} & names)


@pytest.mark.deep
@pytest.mark.timeout(900)
def test_a_hundred_boxes_make_nothing_outside(box: Boxed) -> None:
    """The same, a hundred times."""
    wrecked(box, 100)


@pytest.mark.deep
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", NAMES)
def test_a_hundred_boxes_beside_the_attacker(box: Boxed, name: str) -> None:
    """The same, long enough that some meet the exchange between the look and the mount."""
    outcome = raced(box, name, 100)
    assert sum(outcome) == 100 and outcome.refused > 0
