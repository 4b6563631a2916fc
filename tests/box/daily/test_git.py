"""A day with git: no network, nothing of the host's but the project.

Most of git needs no shell and brings none. It starts the other side of a transfer through
one, and some of its commands are shell scripts: they work where ``sh`` is allowed as well.
"""

from __future__ import annotations

import pytest

from box.daily.session import Day, Work

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

_POLICY = """
default = "deny"
[fs]
write = ["./project"]
[shell]
allow = {allow}
[env.set]
GIT_AUTHOR_NAME = "A"
GIT_AUTHOR_EMAIL = "a@example.test"
GIT_COMMITTER_NAME = "A"
GIT_COMMITTER_EMAIL = "a@example.test"
"""

GIT_ALONE = _POLICY.format(allow='["git", "cat", "ls"]')
GIT_AND_SHELL = _POLICY.format(allow='["git", "sh", "cat", "ls", "true"]')

START = """
        $ git init -q -b main
        $ git add .
        $ git commit -qm one
"""
FILES = {"a.txt": "one\n", "src/b.txt": "two\n"}


def work(title: str, session: str) -> Work:
    """Work in a repository with one commit."""
    return Work(title, START + session, FILES)


ALONE = [
    work("status, add, commit and log", """
        $ git status --porcelain
        $ git mv a.txt c.txt
        $ git rm -q src/b.txt
        $ git status --porcelain
        R  a.txt -> c.txt
        D  src/b.txt
        $ git commit -qm two
        $ git log --format=%s
        two
        one
    """),
    work("diff and apply", """
        $ git rm -q --cached a.txt
        $ git diff --cached --stat
         a.txt | 1 -
         1 file changed, 1 deletion(-)
        $ git diff --cached --output=p.patch
        $ git reset -q
        $ git apply --check p.patch
        $ git apply p.patch
        $ git status --porcelain a.txt
         D a.txt
    """),
    work("branches merge, also in conflict", """
        $ git switch -qc side
        $ git mv a.txt side.txt
        $ git commit -qm side
        $ git switch -q main
        $ git mv src/b.txt main.txt
        $ git commit -qm main
        $ git merge -q --no-edit side
        $ ls
        main.txt
        side.txt
        src
        $ git branch --merged
        * main
          side
        $ git switch -qc other
        $ git mv main.txt other.txt
        $ git commit -qm other
        $ git switch -q main
        $ git rm -q main.txt
        $ git commit -qm gone
        $ git merge --no-edit other
        CONFLICT (rename/delete)...
        [1]
        $ git merge --abort
        $ git branch -d side
        Deleted branch side ...
        $ git log --oneline --graph --all
        ...
    """),
    work("rebase", """
        $ git switch -qc side
        $ git commit -q --allow-empty -m side1
        $ git mv a.txt c.txt
        $ git commit -qm side2
        $ git switch -q main
        $ git mv src/b.txt d.txt
        $ git commit -qm main2
        $ git rebase -q main side
        $ git log --format=%s
        side2
        side1
        main2
        one
        $ git cherry-pick --allow-empty main~1
        ...
        $ git revert --no-edit HEAD~1
        ...
    """),
    work("stash", """
        $ git mv a.txt c.txt
        $ git stash push -q
        $ ls
        a.txt
        src
        $ git stash pop -q
        $ ls
        c.txt
        src
    """),
    work("tags and describe", """
        $ git tag -a v1 -m first
        $ git commit -q --allow-empty -m two
        $ git describe
        v1-1-g...
        $ git tag
        v1
    """),
    work("worktrees", """
        $ git worktree add -q ../worktree-beside -b beside
        $ cat ../worktree-beside/a.txt
        one
        $ git worktree list
        ...[main]
        ...[beside]
        $ git worktree remove ../worktree-beside
    """),
    work("gc, fsck and repack", """
        $ git gc -q --aggressive --prune=now
        $ git fsck --no-progress
        $ git count-objects -v
        count: 0
        ...in-pack: 5...
    """),
    work("configuration of one's own and aliases", """
        $ git config --global alias.last 'log -1 --format=%s'
        $ git config color.ui never
        $ git last
        one
        $ git config --get color.ui
        never
    """),
    work("ignored files and clean", """
        $ git check-ignore x.pyc
        [1]
        $ git config core.excludesFile ../ignore
        $ git ls-files
        a.txt
        src/b.txt
        $ git clean -nd
        $ git diff-index --quiet HEAD
    """),
]  # fmt: skip

WITH_SHELL = [
    work("interactive rebase with a made list", """
        $ git commit -q --allow-empty -m two
        $ git commit -q --allow-empty --fixup HEAD
        $ git -c sequence.editor=true rebase -q -i --autosquash --keep-empty HEAD~2
        $ git log --format=%s
        two
        one
    """),
    work("clone, fetch, pull and push with a local bare repository", """
        $ git clone -q --bare . bare.git
        $ git clone -q bare.git copy
        $ git -C copy commit -q --allow-empty -m two
        $ git -C copy push -q origin main
        $ git remote add origin bare.git
        $ git fetch -q origin
        $ git log --format=%s origin/main
        two
        one
        $ git pull -q --ff-only origin main
        $ git log -1 --format=%s
        two
        $ git ls-remote --heads origin
        ...refs/heads/main
    """),
    work("a submodule from a local path", """
        $ git init -q -b main ../parent
        $ cd ../parent
        $ git -c protocol.file.allow=always submodule add -q ../a-submodule-from-a-local-path sub
        $ git commit -qm sub
        $ git submodule status
        ...sub (heads/main)
        $ git clone -q ../parent ../again
        $ git -C ../again -c protocol.file.allow=always submodule update -q --init
        $ cat ../again/sub/a.txt
        one
        $ git submodule foreach -q 'git log --format=%s'
        one
    """),
    work("grep, blame, show and bisect", """
        $ git grep -n two
        src/b.txt:1:two
        $ git blame -s a.txt
        ^... 1) one
        $ git show HEAD:src/b.txt
        two
        $ git commit -q --allow-empty -m bad
        $ git bisect start HEAD HEAD~1
        ...
        $ git bisect reset
        ...
        $ git shortlog -s HEAD
             2...A
    """),
    work("archive", """
        $ git archive --format=tar -o a.tar HEAD
        $ git archive --format=zip -o a.zip HEAD
        $ git archive --format=tar.gz -o a.tar.gz HEAD
        $ git bundle create -q a.bundle HEAD main
        $ git clone -q a.bundle from-bundle
        $ cat from-bundle/a.txt
        one
    """),
]  # fmt: skip


@pytest.mark.parametrize("work", ALONE, ids=lambda work: work.title)
def test_git_alone(day: Day, work: Work) -> None:
    """The session goes as it would outside, with no shell in the box."""
    day.check(GIT_ALONE, ALONE, work)


@pytest.mark.parametrize("work", WITH_SHELL, ids=lambda work: work.title)
def test_git_with_a_shell(day: Day, work: Work) -> None:
    """What needs a shell goes where one is allowed; git brings what its scripts call."""
    day.check(GIT_AND_SHELL, WITH_SHELL, work)
