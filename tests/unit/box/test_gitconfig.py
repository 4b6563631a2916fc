"""Name and address out of a git configuration, as git itself reads them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from axonkernel.box.gitconfig import identity, sources

CONFIGS = [
    "[user]\n\tname = A B\n\temail = a@example.test\n",
    '[USER]\nName="A # B"; comment\nEMAIL = a@b # comment\n',
    '[user] name = on one line\n[user]\nemail = "x\\"y\\\\z"\n',
    "[user]\n  name = one\n[core]\n  name = other\n[user]\n  name = two\n",
    "[user]\nname = a \\\n  b\n; email = no\n",
    '[user "sub"]\nname = no\n[user]\nname = yes\n',
    '[core]\n\tpager = evil\n[user]\n\tsigningkey = K\n\tname = "  kept "\n',
]


def git(home: Path, key: str) -> str:
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(["git", "config", "--global", key], env=env, capture_output=True,
                          text=True, cwd=home)  # fmt: skip
    return done.stdout.removesuffix("\n")


@pytest.mark.parametrize("text", CONFIGS)
def test_it_is_what_git_says(tmp_path: Path, text: str) -> None:
    """git reads the same name and address out of the original and out of ours."""
    first, second = tmp_path / "first", tmp_path / "second"
    for home in (first, second):
        home.mkdir()
    (first / ".gitconfig").write_text(text)
    ours = identity([str(first / ".gitconfig")])
    (second / ".gitconfig").write_text(ours)
    for key in ("user.name", "user.email"):
        assert git(second, key) == git(first, key).strip(), ours
    assert git(first, "user.name")
    for other in ("pager", "signingkey", "evil"):
        assert other not in ours


def test_the_last_source_counts(tmp_path: Path) -> None:
    """As for git: the home's own over its folder of configurations."""
    (tmp_path / ".config/git").mkdir(parents=True)
    (tmp_path / ".config/git/config").write_text("[user]\nname = X\nemail = x@y\n")
    (tmp_path / ".gitconfig").write_text("[user]\nname = H\n")
    assert identity(sources(str(tmp_path))[1:]) == '[user]\n\temail = "x@y"\n\tname = "H"\n'


@pytest.mark.parametrize("text", ["", "[user]\n", "[core]\nname = x\n", "\0\xff[["])
def test_none_is_empty(tmp_path: Path, text: str) -> None:
    """Nothing is made up."""
    (tmp_path / "c").write_text(text)
    assert identity([str(tmp_path / "c"), str(tmp_path / "absent"), str(tmp_path)]) == ""
