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


@pytest.fixture
def hidden(owned: Boxed) -> Boxed:
    """That project, below a folder that only root may enter, with a secret beside it."""
    (owned.root / "secret").write_text("SECRET")
    owned.root.chmod(0o700)
    return owned


def test_a_grant_below_a_closed_folder(hidden: Boxed) -> None:
    """Who owns the project works in it, though on the host he could not get there; what lies
    beside it is as far away as ever."""
    run = hidden.exec(*WRITE, command=WHO)
    assert (run.code, run.text) == (0, f"{NOBODY_IN_PASSWD}\n"), run.err
    answers = hidden.attempts(["write", "out/new"], ["read", "../secret"], grants=WRITE)
    assert answers == ["ok", "ENOENT"]
    assert (hidden.project / "out/new").stat().st_uid == NOBODY_IN_PASSWD
    (status,) = hidden.attempts(["status"], grants=WRITE)
    assert int(status["CapEff"], 16) == 0 and int(status["CapBnd"], 16) == 0


@pytest.mark.parametrize("run_as", [str(NOBODY_IN_PASSWD), '"nobody"'])
def test_a_user_asked_for_is_run_as_there(hidden: Boxed, run_as: str) -> None:
    """``box.run_as`` is the user of the box; a file of root's in the grant stays closed."""
    kept = hidden.project / "kept"
    kept.write_text("of root")
    kept.chmod(0o600)
    grants = policy(hidden, run_as)
    run = hidden.exec(*grants, command=WHO)
    assert run.code == 0 and run.text.strip() != "0", run.err
    assert hidden.attempts(["read", "kept"], grants=grants) == ["EACCES"]


def test_the_policy_files_owner(owned: Boxed) -> None:
    """Who wrote the policy gets no more than they have: it runs as them, whoever owns what it
    grants. Where root wrote it, as the owner of the first write grant."""
    theirs, roots, granted = owned.project, owned.root / "roots", owned.root / "granted"
    for folder in (roots, granted):
        folder.mkdir()
    for folder, owner, grant, user in (
        (theirs, NOBODY_IN_PASSWD, granted, NOBODY_IN_PASSWD),
        (roots, 0, granted, 0),
        (roots, 0, owned.project, NOBODY_IN_PASSWD),
    ):
        path = folder / "p.toml"
        path.write_text(f'default = "deny"\n[fs]\nwrite = ["{grant}"]\n')
        os.chown(path, owner, owner)
        run = owned.exec("--policy", path, command=WHO)
        assert (run.code, run.text) == (0, f"{user}\n"), run.err


def test_a_missing_folder_is_made_as_that_user(hidden: Boxed) -> None:
    """Also below a folder closed to the user, whatever the umask; where the user could make
    nothing, root makes nothing for them."""
    before = os.umask(0o077)
    run = hidden.exec("--write", "./new/deep", command=["/usr/bin/touch", "new/deep/x"])
    os.umask(before)
    assert run.code == 0, run.err
    for name in ("new", "new/deep"):
        found = (hidden.project / name).stat()
        assert (found.st_uid, found.st_mode & 0o7777) == (NOBODY_IN_PASSWD, 0o755)
    options = ["--write", ".", "--write", f"{hidden.root}/beside"]
    run = hidden.exec(*options, command=WHO)
    assert run.code == 125 and run.out == b"" and not (hidden.root / "beside").exists()
    assert "Permission denied" in run.err and f"uid {NOBODY_IN_PASSWD}" in run.err
    (hidden.root / "beside").mkdir()
    assert hidden.exec(*options, command=WHO).code == 0
