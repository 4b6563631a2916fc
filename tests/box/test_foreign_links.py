"""A link of somebody else's on the way to a grant gives nobody what only this user may have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from axonkernel.errors import PolicyError
from axonkernel.paths import canonical_policy
from axonkernel.policy.model import FsPolicy, Policy
from box.boxed import Boxed, Run
from lab.user import NOBODY_IN_PASSWD, OrdinaryUser

pytestmark = [pytest.mark.box, pytest.mark.root, pytest.mark.usefixtures("leftovers")]

A_THIRD_USER = 23456


@pytest.fixture
def owned(ordinary_user: OrdinaryUser, box_cache: Path) -> Iterator[Boxed]:
    """A project of another user's, at a place that everybody may enter."""
    ordinary_user.home.chmod(0o755)
    box = Boxed(ordinary_user.home, box_cache)
    os.chown(box.project, ordinary_user.uid, ordinary_user.uid)
    yield box


@pytest.fixture
def roots(tmp_path: Path) -> Path:
    """A folder that only root may enter: a file in it is readable by whoever gets that far."""
    (tmp_path / "notes").write_text("NOTES")
    (tmp_path / "folder").mkdir()
    return tmp_path


def run(box: Boxed, roots: Path, *, run_as: str = "") -> Run:
    """``id`` under a policy of root's that grants two names in the project."""
    policy = roots / "policy.toml"
    policy.write_text(
        'default = "deny"\n[shell]\nallow = ["sh", "touch", "cat", "id"]\n'
        f'[fs]\nread = ["{box.project}/data"]\nwrite = ["{box.project}/out"]\n'
        + (f"[box]\nrun_as = {run_as}\n" if run_as else "")
    )
    words = f"touch {box.project}/out/made; cat {box.project}/data; id -u"
    return box.exec("--policy", policy, command=["/bin/sh", "-c", words], cwd="/")


def link(path: Path, target: Path, owner: int) -> None:
    path.symlink_to(target)
    os.lchown(path, owner, owner)


def names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*")} - {"policy.toml"}


def test_real_files_are_given_to_their_owner(owned: Boxed, roots: Path) -> None:
    """The policy in which the others put links: it runs as who owns the project, and makes
    what is missing there as that user."""
    (owned.project / "data").write_text("DATA")
    done = run(owned, roots)
    assert (done.code, done.text) == (0, f"DATA{NOBODY_IN_PASSWD}\n"), done.err
    for made in (owned.project / "out", owned.project / "out/made"):
        assert made.stat().st_uid == NOBODY_IN_PASSWD


@pytest.mark.parametrize("run_as", ["", str(NOBODY_IN_PASSWD)])
@pytest.mark.parametrize("target", ["folder", "missing"])
def test_a_write_grant_of_the_owners_leads_nowhere(
    owned: Boxed, roots: Path, target: str, run_as: str
) -> None:
    """Nothing is made or written in root's folder; the message names link, owner, target."""
    (owned.project / "data").write_text("DATA")
    before = names(roots)
    link(owned.project / "out", roots / target, NOBODY_IN_PASSWD)
    done = run(owned, roots, run_as=run_as)
    assert (done.code, done.out, names(roots)) == (78, b"", before)
    assert f"{owned.project}/out belongs to uid {NOBODY_IN_PASSWD}" in done.err
    assert f"grant what it leads to, if you mean it: {roots / target}" in done.err


def test_a_folder_on_the_way_can_be_such_a_link(owned: Boxed, roots: Path) -> None:
    """Also to a file that the user could read if root's folder were not closed."""
    link(owned.project.parent / "way", roots, NOBODY_IN_PASSWD)
    link(owned.project / "data", roots / "notes", NOBODY_IN_PASSWD)
    done = run(owned, roots, run_as=str(NOBODY_IN_PASSWD))
    assert done.code == 78 and "NOTES" not in done.text + done.err
    words = ["/bin/cat", f"{owned.project.parent}/way/notes"]
    done = owned.exec("--read", owned.project.parent / "way/notes", command=words, cwd="/")
    assert done.code == 78 and "NOTES" not in done.text + done.err
    done = owned.exec("--read", roots / "notes", command=["/bin/cat", roots / "notes"], cwd="/")
    assert (done.code, done.text) == (0, "NOTES"), done.err


def test_what_others_may_move_is_theirs_to_root(owned: Boxed, roots: Path) -> None:
    """A link of root's in a folder of another user's, or one that others may write; in root's
    own folder it is followed, and told."""
    (owned.project / "data").write_text("DATA")
    read = ["/bin/cat", owned.project / "data"]
    shared = roots / "shared"
    shared.mkdir()
    for place, mode, code in ((owned.project, 0o755, 78), (shared, 0o777, 78), (shared, 0o700, 0)):
        place.chmod(mode)
        path = place / "link"
        path.symlink_to(owned.project / "data")
        done = owned.exec("--read", path, command=read, cwd="/")
        path.unlink()
        assert done.code == code, done.err
        assert "lies in" in done.err if code else "is a link; what it leads to" in done.err


def test_links_of_another_users_for_an_ordinary_user(ordinary_user: OrdinaryUser) -> None:
    """Its own links and root's are followed, a third user's is refused."""
    folder = ordinary_user.home
    for name, owner in (("own", ordinary_user.uid), ("root", 0), ("third", A_THIRD_USER)):
        link(folder / name, Path("/usr"), owner)
        policy = Policy(fs=FsPolicy(read=(f"{folder}/{name}/share",)))
        if name == "third":
            with pytest.raises(PolicyError) as caught:
                ordinary_user.call(canonical_policy, policy)
            (fault,) = caught.value.faults
            assert str(A_THIRD_USER) in fault.message and "/usr/share" in fault.hint
        else:
            found = ordinary_user.call(canonical_policy, policy)
            assert found.fs is not None and found.fs.read == ("/usr/share",)
