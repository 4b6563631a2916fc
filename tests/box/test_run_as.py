"""Whom a root supervisor's box runs as, where that user cannot reach what it is given."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from box.boxed import Boxed, Run
from lab.user import NOBODY_IN_PASSWD, OrdinaryUser

pytestmark = [pytest.mark.box, pytest.mark.root, pytest.mark.usefixtures("leftovers")]

WRITE = ["--write", "."]
WHO = ["/usr/bin/id", "-u"]


@pytest.fixture
def owned(ordinary_user: OrdinaryUser, box_cache: Path) -> Iterator[Boxed]:
    """A project of another user's, below a folder that everybody may enter."""
    root = ordinary_user.home / "work"
    root.mkdir()
    for folder in (ordinary_user.home, root):
        folder.chmod(0o755)
    box = Boxed(root, box_cache)
    (box.project / "out").mkdir()
    for path in (box.project, box.project / "out"):
        os.chown(path, ordinary_user.uid, ordinary_user.uid)
    yield box


def policy(box: Boxed, run_as: str) -> list[str]:
    path = box.root / "p.toml"
    path.write_text(
        f'default = "deny"\n[fs]\nwrite = ["{box.project}"]\n[box]\nrun_as = {run_as}\n'
    )
    return ["--policy", str(path)]


def user_row(run: Run) -> str:
    (row,) = [row for row in run.status["posture"] if row["field"] == "user"]
    return str(row["by"])


def test_the_projects_owner_where_it_can_be_reached(owned: Boxed) -> None:
    """The agent has the uid that owns the folder it may write, and no warning."""
    run = owned.exec(*WRITE, command=WHO)
    assert (run.code, run.text) == (0, f"{NOBODY_IN_PASSWD}\n"), run.err
    assert user_row(run) == f"uid {NOBODY_IN_PASSWD}" and "is closed to" not in run.err


def test_the_walls_inside_a_grant_hold_for_another_uid(owned: Boxed) -> None:
    """Denied and protected names, with a network wall and without."""
    (owned.project / "key").write_text("KEY")
    (owned.project / ".git/hooks").mkdir(parents=True)
    for path in (owned.project / "key", owned.project / ".git", owned.project / ".git/hooks"):
        os.chown(path, NOBODY_IN_PASSWD, NOBODY_IN_PASSWD)
    for options in ([], ["--open", "net"]):
        answers = owned.attempts(
            ["read", "key"],
            ["write", ".git/hooks/pre-commit"],
            ["rename", ".git", "moved"],
            ["write", "out/new"],
            ["names", "/run"],
            grants=[*WRITE, "--deny", "./key", *options],
        )
        assert answers == ["EACCES", "EROFS", "EBUSY", "ok", []]


def test_an_owner_who_cannot_get_there_is_not_run_as(owned: Boxed) -> None:
    """A folder above the project is closed to its owner: the box is made as the supervisor's
    own user, without capabilities, and one line says so."""
    owned.root.chmod(0o700)  # root's
    run = owned.exec(*WRITE, command=WHO)
    assert (run.code, run.text) == (0, "0\n"), run.err
    (line,) = [line for line in run.err.splitlines() if "is closed to" in line]
    assert str(owned.root) in line and "keeps this user's uid" in line
    assert "without capabilities" in user_row(run)
    (status,) = owned.attempts(["status"], grants=WRITE)
    assert int(status["CapEff"], 16) == 0 and int(status["CapBnd"], 16) == 0


@pytest.mark.parametrize("run_as", [str(NOBODY_IN_PASSWD), '"nobody"'])
def test_a_user_asked_for_is_refused_there(owned: Boxed, run_as: str) -> None:
    """``box.run_as`` is not swapped for another user: 125 with the folder and the user named,
    and nothing ran; where the folder is open it is run as."""
    owned.root.chmod(0o700)
    run = owned.exec(*policy(owned, run_as), command=["/usr/bin/touch", "out/ran"])
    assert (run.code, run.out) == (125, b"")
    assert f"{owned.root} is closed to" in run.err and "box.run_as" in run.err
    assert not (owned.project / "out/ran").exists()
    owned.root.chmod(0o755)
    twin = owned.exec(*policy(owned, run_as), command=WHO)
    assert twin.code == 0 and twin.text.strip() != "0", twin.err
