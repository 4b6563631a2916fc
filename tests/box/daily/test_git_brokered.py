"""The same day with git where its words are judged: it runs in a box of its own for each call."""

from __future__ import annotations

import pytest

from box.daily.session import Day, Work
from box.daily.test_git import ALONE, GIT_ALONE, WITH_SHELL, work

pytestmark = [pytest.mark.box, pytest.mark.usefixtures("leftovers")]

POLICY = GIT_ALONE.replace("[env.set]", '[shell.args.git]\ndeny = ["push --force*"]\n[env.set]')

#: An alias may be any other subcommand; what needs -c or a shell is for test_git.py.
_ASIDE = ("configuration of one's own and aliases", "interactive rebase with a made list")
WORKS = [
    *(each for each in ALONE if each.title not in _ASIDE),
    *(each for each in WITH_SHELL if "submodule" not in each.title and "bisect" not in each.title
      and each.title not in _ASIDE),
    work("configuration and hooks of one's own", """
        $ git config --global user.signingKey x
        $ git config --get user.signingKey
        x
        $ git init -q /tmp/scratch
        $ git -C /tmp/scratch commit -q --allow-empty -m private
        $ git -C /tmp/scratch log --format=%s
        private
        $ git push --force
        ...denied (shell.args)...
        [126]
        $ git log --format=%s
        one
    """),
]  # fmt: skip


#: Enough for every day; the rest takes a box for each of a hundred more calls.
QUICK = [each for each in WORKS if each.title in ("status, add, commit and log",
         "clone, fetch, pull and push with a local bare repository",
         "configuration and hooks of one's own")]  # fmt: skip


@pytest.mark.parametrize("work", QUICK, ids=lambda work: work.title)
def test_git_brokered(day: Day, work: Work) -> None:
    """The session goes as it would with git in the box: /tmp and the home are the agent's."""
    day.check(POLICY, QUICK, work)


REST = [each for each in WORKS if each not in QUICK]


@pytest.mark.deep
@pytest.mark.parametrize("work", REST, ids=lambda work: work.title)
def test_all_of_git_brokered(day: Day, work: Work) -> None:
    """The rest of the day, merges, rebases and stashes among it."""
    day.check(POLICY + "\n", REST, work)
