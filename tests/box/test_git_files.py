"""What git would run outside is read-only inside, wherever a repository keeps it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from box.boxed import Boxed

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

ME = ("-c", "user.name=n", "-c", "user.email=a@b")


def git(folder: Path, *words: str) -> None:
    subprocess.run(["git", "-C", str(folder), *ME, *words], check=True, capture_output=True)


def test_what_configuration_and_other_repositories_run(box: Boxed) -> None:
    """Included files (also one that is missing, or that another includes), the folder of
    core.hooksPath, a separate git dir and a bare repository: none can be changed, moved away
    or added to. The twins: a commit, a push into the bare one, and an unprotected file."""
    work = box.project / "w"
    work.mkdir()
    git(work, "init", "-q", "rep")
    git(work, "init", "-q", "--bare", "b.git")
    git(work, "init", "-q", "--separate-git-dir", str(work / "store"), "sup")
    rep = work / "rep"
    (rep / "tools/run").mkdir(parents=True)
    (rep / "one.cfg").write_text('[include]\n\tpath = "two.cfg"\n')
    (rep / "two.cfg").write_text("")
    git(rep, "config", "core.hooksPath", "tools/run")
    git(rep, "config", "include.path", "../one.cfg")
    git(rep, "config", "includeIf.gitdir:/x/.path", "../late.cfg")
    held = [
        "rep/one.cfg", "rep/two.cfg", "rep/late.cfg", "rep/tools/run/pre-commit",
        "store/config", "store/hooks/pre-commit", "store/commondir", "sup/.git",
        "b.git/config", "b.git/hooks/pre-receive", "b.git/commondir",
    ]  # fmt: skip
    tries = "; ".join(f"echo EVIL 2>&- > w/{name}" for name in held)
    moves = "mv w/rep/tools w/t; mv w/b.git w/c; mv w/store w/s"
    me = "git -c user.name=n -c user.email=a@b -C w/rep"
    ordinary = f"echo x > w/rep/file && {me} add file && {me} commit -qm m"
    push = f"{me} push -q ../b.git HEAD:refs/heads/new"
    script = f"{tries}; {moves}; {ordinary} && {push} && echo done"
    names = ("bash", "sh", "git", "git-receive-pack", "mv")
    options = [word for name in names for word in ("--allow", name)]
    run = box.exec("--write", "w", *options, command=["bash", "-c", script])
    assert "done" in run.text, run.err
    texts = [path.read_bytes() for path in work.rglob("*") if path.is_file()]
    assert not any(text == b"EVIL\n" for text in texts)
    assert all((work / name).is_dir() for name in ("rep/tools/run", "b.git/hooks", "store/hooks"))
    assert not any((work / name).exists() for name in ("rep/late.cfg", "b.git/commondir"))
    git(work / "b.git", "rev-parse", "--verify", "refs/heads/new")
