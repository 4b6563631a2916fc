"""A repository that the agent has made runs nothing in the box of git, and lets nothing through.

Each trap leaves a mark outside any box, so that the marks that are missing inside say something.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from box.boxed import Boxed
from box.test_broker import GIT_ENV, WORDS, git, policy, repositories, write_policy

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

#: What runs for a trap: a program that leaves a mark named after it.
TRAP = """#!/bin/sh
echo "$0" > "{mark}"
[ "$1" = smudge ] && cat
exit 0
"""
#: Configuration that runs the program {trap}, a shell line, or git itself with other words.
CONFIG = """
[core]
    fsmonitor = {trap}
    pager = {trap}
    editor = {trap}
    hooksPath = {folder}/hooks
    sshCommand = {trap}
    askPass = {trap}
    gitProxy = {trap}
    alternateRefsCommand = {trap}
[sequence]
    editor = {trap}
[filter "t"]
    clean = {trap}
    smudge = {trap} smudge
[filter "g"]
    clean = git-push
[diff "t"]
    textconv = {trap}
    command = {trap}
[diff "g"]
    textconv = git
[merge "t"]
    driver = {trap}
[gpg]
    program = {trap}
[gpg "ssh"]
    defaultKeyCommand = git-push --force evil main
[credential]
    helper = {trap}
[alias]
    evil = push --force evil HEAD~1:main
    status = push --force evil HEAD~1:main
    diagnose = push --force evil HEAD~1:main
    shelled = !{trap}
[remote "evil"]
    url = {remote}
    push = +HEAD~1:refs/heads/main
[remote "ext"]
    url = ext::{trap}
[push]
    default = current
[remote]
    pushDefault = evil
"""
ATTRIBUTES = "t* filter=t diff=t merge=t\ng* filter=g\nevil diff=g\n"
#: What an agent does in it, one line each; none of it is denied by a rule.
WORK = """
status --short
add t.txt
add g.txt
add evil
diff
diff --cached
log -p -2
show HEAD
commit -q -m trap
commit -q --amend --no-edit
commit -q --allow-empty -S -m signed
checkout -q -b other
merge -q main
rebase -q main
stash
stash pop
fetch -q evil
fetch -q ext
pull -q evil main
push -q evil HEAD:refs/heads/fine
gc -q --auto
shortlog HEAD
worktree add -q ../tree
-C ../tree status --short
tag -s -m x v1
diagnose -o .
submodule update --init
ls-remote ext
archive --format=tar HEAD
blame a.txt
am none
bugreport
"""


def set_traps(folder: Path) -> tuple[Path, Path]:
    """A repository full of traps, and the mark that any of them leaves."""
    repo = repositories(folder)
    mark, trap = folder / "MARK", folder / "trap"
    trap.write_text(TRAP.format(mark=mark))
    trap.chmod(0o755)
    (repo / "hooks").mkdir()
    names = ("pre-commit", "post-commit", "commit-msg", "pre-push", "post-checkout", "pre-rebase",
             "post-merge", "post-index-change", "reference-transaction", "update",
             "pre-receive", "post-receive", "post-update")  # fmt: skip
    for name in names:
        for place in (repo / "hooks", repo / ".git/hooks", folder / "remote.git/hooks"):
            (place / name).unlink(missing_ok=True)
            (place / name).write_text(TRAP.format(mark=mark))
            (place / name).chmod(0o755)
    (repo / ".gitattributes").write_text(ATTRIBUTES)
    for name in ("a.txt", "t.txt", "g.txt", "evil"):
        (repo / name).write_text(f"{name}\n")
    included = folder / "included"
    included.write_text(CONFIG.format(trap=trap, folder=repo, remote=folder / "remote.git"))
    with (repo / ".git/config").open("a") as config:
        config.write(f"[include]\n    path = {included}\n")
    with (folder / "remote.git/config").open("a") as config:
        config.write(f"[include]\n    path = {included}\n")
    return repo, mark


def heads(folder: Path) -> dict[str, str]:
    """The branches of the remote."""
    told = git(folder / "remote.git", "-c", "core.hooksPath=/none", "for-each-ref",
               "--format=%(refname:short) %(subject)")  # fmt: skip
    return dict(line.split(" ") for line in told.splitlines())


def test_nothing_of_the_repositorys_runs(box: Boxed) -> None:
    """Hooks, filters, drivers, aliases, helpers and includes: no mark, no push but the judged."""
    repo, mark = set_traps(box.project)
    lines = "".join(f"git {line} > /dev/null\n" for line in WORK.strip().splitlines())
    steered = f"export GIT_EDITOR={box.project}/trap GIT_PAGER=git-push GIT_SSH_COMMAND=git-push\n"
    (box.project / "work.sh").write_text(steered + lines)
    run = box.exec(
        "--policy", write_policy(box, policy(WORDS, "bash", "sh")),
        command=["bash", str(box.project / "work.sh")], env=GIT_ENV, cwd=repo,
    )  # fmt: skip
    assert not mark.exists(), mark.read_text()
    assert heads(box.project)["main"] == "one", run.err
    assert heads(box.project).keys() == {"main", "fine"}
    assert "axonkernel: not run" in run.err  # textconv = git, with a path that is an alias
    # The same work in the same place, outside: the traps are good ones.
    for line in ("status --short", "add t.txt"):
        subprocess.run(["git", *line.split()], cwd=repo, env={**os.environ, **GIT_ENV}, check=False)
    assert mark.exists()
    mark.unlink()
    subprocess.run(["git", "push", "-q", "evil", "HEAD:refs/heads/outside"], cwd=repo,
                   env={**os.environ, **GIT_ENV}, check=False)  # fmt: skip
    assert mark.exists()
